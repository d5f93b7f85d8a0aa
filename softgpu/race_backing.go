//go:build race

package softgpu

const raceBuild = true

// raceVisible is the largest piece of device memory whose accesses the race
// detector is told of: it keeps four bytes for each of the heap.
const raceVisible = 64 << 20

// reserveHost takes memory that the race detector sees: that of the Go heap.
func reserveHost(n int) (*backing, error) { return goHeap(n) }

// reserveDevice takes memory for a device.
func reserveDevice(n int) (*backing, error) {
	if n <= raceVisible {
		return goHeap(n)
	}
	return reserve(n)
}
