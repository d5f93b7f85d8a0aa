package grid

import (
	"encoding/binary"
	"math"

	"github.com/ferrygpu/ferry/cu"
)

// place is where the data of a kernel is.
type place int

const (
	onDevice  place = iota
	zeroCopy        // in page-locked memory, which the kernel accesses over the link
	copyFirst       // in page-locked memory; the step copies it to the device, then launches
)

var placeNames = [...]string{onDevice: "device", zeroCopy: "zero-copy", copyFirst: "copy and kernel"}

func (p place) String() string { return placeNames[p] }

// bothWays are the two ways to bring host memory to a kernel. allPlaces has the device's
// memory, too.
var (
	bothWays  = []place{zeroCopy, copyFirst}
	allPlaces = []place{onDevice, zeroCopy, copyFirst}
)

// over returns a kind for each place. The place is the end of its name.
func over(places []place, name, unit string, sizes []int, make func(r *rig, n int, p place) (trial, error)) (out []kind) {
	for _, p := range places {
		out = append(out, kind{name + ", " + p.String(), unit, sizes, func(r *rig, n int) (trial, error) { return make(r, n, p) }})
	}
	return out
}

// input is data in the memory that a kernel reads.
type input struct {
	at    cu.DevicePtr
	host  []byte       // page-locked memory with the data; nil on the device
	bring func() error // submits the copy of the data; nil if there is none
}

// input allocates memory at a place and writes data to it.
func (r *rig) input(data []byte, p place) (in input, err error) {
	n := len(data)
	if p != zeroCopy {
		if in.at, err = r.device(n); err != nil {
			return in, err
		}
	}
	if p == onDevice {
		if err := r.d.MemcpyHtoD(r.ctx, in.at, pointer(data), uintptr(n)); err != nil {
			return in, err
		}
		return in, r.d.StreamSynchronize(r.ctx, cu.StreamLegacy) // a copy of pageable memory may end after the call
	}
	host, err := r.pinned(n, cu.MemHostAllocDeviceMap)
	if err != nil {
		return in, err
	}
	in.host = bytesOf(host, n)
	if err := r.reportAccess(in.host, true); err != nil {
		return in, err
	}
	copy(in.host, data)
	if p == zeroCopy {
		in.at, err = r.d.MemHostGetDevicePointer(r.ctx, host, 0)
		return in, err
	}
	in.bring = func() error { return r.d.MemcpyHtoDAsync(r.ctx, in.at, host, uintptr(n), r.stream) }
	return in, nil
}

// ones returns n bytes of floats that are 1.
func ones(n int) []byte {
	return words(n/4, func(int) uint32 { return math.Float32bits(1) })
}

// words returns the bytes of n words.
func words(n int, word func(i int) uint32) []byte {
	out := make([]byte, 0, 4*n)
	for i := range n {
		out = binary.LittleEndian.AppendUint32(out, word(i))
	}
	return out
}

// random returns number i of a sequence that looks random.
func random(i int) uint32 {
	x := uint32(i)*0x9e3779b1 + 0x7f4a7c15
	x = (x ^ x>>16) * 0x85ebca6b
	x = (x ^ x>>13) * 0xc2b2ae35
	return x ^ x>>16
}

// indices returns n random indices of a table of the given number of words.
func indices(n, table int) []byte {
	return words(n, func(i int) uint32 { return random(i) % uint32(table) })
}

// job is a launch of a kernel of patterns.cu.
type job struct {
	kernel          string
	blocks, threads int
	params          []byte
}

// submit submits a job to a stream.
func (r *rig) submit(j job, s cu.Stream) error {
	return r.d.LaunchKernel(r.ctx, r.functions[j.kernel], cu.Dim3{X: uint32(j.blocks), Y: 1, Z: 1}, cu.Dim3{X: uint32(j.threads), Y: 1, Z: 1}, 0, s, j.params)
}

// run returns a trial that brings the input and launches a job. Its time is that between two
// events.
func (r *rig) run(in input, j job) trial {
	return trial{events: true, step: func() error {
		if in.bring != nil {
			if err := in.bring(); err != nil {
				return err
			}
		}
		return r.submit(j, r.stream)
	}}
}

// blocksFor returns how many blocks of the usual number of threads n threads need.
func blocksFor(n int) int { return max(1, (n+threads-1)/threads) }
