package grid

import "github.com/ferrygpu/ferry/cu"

// besideKinds are two operations in two streams, from the submission of the first until both
// are over. The size is that of the data of each.
var besideKinds = []kind{
	{"copy in beside a computing kernel", "bytes", []int{4 * mib, 16 * mib, 64 * mib}, beside(computing, copying(true))},
	{"copy out beside a computing kernel", "bytes", []int{4 * mib, 16 * mib}, beside(computing, copying(false))},
	{"copy in beside zero-copy read", "bytes", []int{4 * mib, 16 * mib, 64 * mib}, beside(reading(zeroCopy), copying(true))},
	{"copy in beside zero-copy write", "bytes", []int{4 * mib, 16 * mib}, beside(writing(zeroCopy), copying(true))},
	{"copy out beside zero-copy read", "bytes", []int{4 * mib, 16 * mib}, beside(reading(zeroCopy), copying(false))},
	{"copy out beside zero-copy write", "bytes", []int{4 * mib, 16 * mib}, beside(writing(zeroCopy), copying(false))},
	{"copy in beside a kernel on the device", "bytes", []int{4 * mib, 16 * mib}, beside(reading(onDevice), copying(true))},
	{"two copies in", "bytes", []int{1 * mib, 16 * mib, 64 * mib}, beside(copying(true), copying(true))},
	{"two copies out", "bytes", []int{1 * mib, 16 * mib}, beside(copying(false), copying(false))},
	{"zero-copy read beside zero-copy write", "bytes", []int{4 * mib, 16 * mib}, beside(reading(zeroCopy), writing(zeroCopy))},
	{"two zero-copy reads", "bytes", []int{4 * mib, 16 * mib}, beside(reading(zeroCopy), reading(zeroCopy))},
}

// oneSide is one of two operations. It allocates its memory and returns what submits it.
type oneSide func(r *rig, n int) (submit func(cu.Stream) error, err error)

// beside submits the first operation to the rig's first stream, the other to its second.
func beside(first, other oneSide) func(r *rig, n int) (trial, error) {
	return func(r *rig, n int) (trial, error) {
		one, err := first(r, n)
		if err != nil {
			return trial{}, err
		}
		two, err := other(r, n)
		return trial{step: func() error {
			if err := one(r.stream); err != nil {
				return err
			}
			if err := two(r.second); err != nil {
				return err
			}
			return r.syncAll([]cu.Stream{r.stream, r.second})
		}}, err
	}
}

func copying(in bool) oneSide {
	return func(r *rig, n int) (func(cu.Stream) error, error) {
		host, dev, err := r.pair(n)
		return func(s cu.Stream) error {
			if in {
				return r.d.MemcpyHtoDAsync(r.ctx, dev, host, uintptr(n), s)
			}
			return r.d.MemcpyDtoHAsync(r.ctx, host, dev, uintptr(n), s)
		}, err
	}
}

// reading is a kernel that reads n bytes by words.
func reading(p place) oneSide {
	return func(r *rig, n int) (func(cu.Stream) error, error) {
		in, err := r.input(ones(n), p)
		if err != nil {
			return nil, err
		}
		const blocks = 528
		out, err := r.device(4 * threads * blocks)
		j := job{"add_up", blocks, threads, pack(in.at, out, uint64(n/4))}
		return func(s cu.Stream) error { return r.submit(j, s) }, err
	}
}

// writing is a kernel that writes n bytes by words.
func writing(p place) oneSide {
	return func(r *rig, n int) (func(cu.Stream) error, error) {
		out, err := r.input(ones(n), p)
		j := job{"write_all", 528, threads, pack(out.at, uint64(n/4))}
		return func(s cu.Stream) error { return r.submit(j, s) }, err
	}
}

// computing is a kernel that computes for less time than the copy of 64 MiB takes, and
// accesses little memory.
func computing(r *rig, _ int) (func(cu.Stream) error, error) {
	in, err := r.input(ones(256*kib), onDevice)
	if err != nil {
		return nil, err
	}
	out, err := r.device(256 * kib)
	j := job{"multiply_add", 256, threads, pack(in.at, out, uint64(64*kib), uint32(4000))}
	return func(s cu.Stream) error { return r.submit(j, s) }, err
}
