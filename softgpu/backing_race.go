//go:build race

package softgpu

const raceBuild = true

// reserveHost takes memory that the race detector sees: that of the Go heap.
// Device memory is not of its kind, for kernels may race there as they like.
func reserveHost(n int) (*backing, error) { return goHeap(n) }
