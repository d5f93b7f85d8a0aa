package grid

import (
	"encoding/binary"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// cpuKinds are uses of page-locked memory by the CPU, and of what it has just written. The
// size is that of the data.
var cpuKinds = slices.Concat(
	over(bothWays, "kernel reads what the CPU has just written", "bytes", []int{64 * kib, 256 * kib, 1 * mib, 4 * mib}, justWritten),
	[]kind{
		{"CPU reads page-locked memory", "bytes", []int{64 * kib, 1 * mib, 16 * mib}, func(r *rig, n int) (trial, error) { return cpuReads(r, n, 0) }},
		{"CPU reads write-combined memory", "bytes", []int{64 * kib, 1 * mib, 16 * mib}, func(r *rig, n int) (trial, error) {
			return cpuReads(r, n, cu.MemHostAllocWriteCombined)
		}},
		{"CPU writes page-locked memory", "bytes", []int{64 * kib, 1 * mib, 16 * mib}, func(r *rig, n int) (trial, error) { return cpuWrites(r, n, 0) }},
		{"CPU writes write-combined memory", "bytes", []int{64 * kib, 1 * mib, 16 * mib}, func(r *rig, n int) (trial, error) {
			return cpuWrites(r, n, cu.MemHostAllocWriteCombined)
		}},
		{"copy out, then the CPU reads", "bytes", []int{64 * kib, 1 * mib, 16 * mib}, copyOutAndRead},
		{"kernel writes over the link, then the CPU reads", "bytes", []int{64 * kib, 1 * mib}, kernelWritesCPUReads},
	},
)

func justWritten(r *rig, n int, p place) (trial, error) {
	in, err := r.input(ones(n), p)
	if err != nil {
		return trial{}, err
	}
	blocks := min(blocksFor(n/4), 528)
	out, err := r.device(4 * threads * blocks)
	t := r.run(in, job{"add_up", blocks, threads, pack(in.at, out, uint64(n/4))})
	t.prepare = func() error { return r.write(in.host) }
	return t, err
}

// readAll reads all of b, in words of 8 bytes.
func (r *rig) readAll(b []byte) error {
	if err := r.reportAccess(b, false); err != nil {
		return err
	}
	var sum uint64
	for ; len(b) >= 8; b = b[8:] {
		sum += binary.LittleEndian.Uint64(b)
	}
	r.touched += byte(sum)
	return nil
}

func cpuReads(r *rig, n int, flags cu.MemHostAllocFlags) (trial, error) {
	p, err := r.pinned(n, flags)
	return trial{step: func() error { return r.readAll(bytesOf(p, n)) }}, err
}

// cpuWrites writes with one core.
func cpuWrites(r *rig, n int, flags cu.MemHostAllocFlags) (trial, error) {
	p, err := r.pinned(n, flags)
	return trial{step: func() error { return r.write(bytesOf(p, n)) }}, err
}

func copyOutAndRead(r *rig, n int) (trial, error) {
	host, dev, err := r.pair(n)
	out := r.copyOut(host, dev, n)
	return trial{step: func() error {
		if err := repeat(1, out, r.sync); err != nil {
			return err
		}
		return r.readAll(bytesOf(host, n))
	}}, err
}

func kernelWritesCPUReads(r *rig, n int) (trial, error) {
	out, err := r.input(ones(n), zeroCopy)
	write := r.kernelOf(job{"write_all", blocksFor(n / 4), threads, pack(out.at, uint64(n/4))})
	return trial{step: func() error {
		if err := repeat(1, write, r.sync); err != nil {
			return err
		}
		return r.readAll(out.host)
	}}, err
}
