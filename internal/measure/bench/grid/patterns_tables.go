package grid

import (
	"fmt"
	"slices"
)

// gatherKinds are kernels that access a table at random indices. The indices are in device
// memory. The size is that of the table.
var gatherKinds = slices.Concat(
	over(allPlaces, "1 Mi words gathered", "bytes of table", []int{64 * kib, 256 * kib, 1 * mib, 16 * mib}, func(r *rig, n int, p place) (trial, error) {
		return gather(r, mib, n, p)
	}),
	over(allPlaces, "64 Ki words gathered", "bytes of table", []int{64 * kib, 1 * mib, 16 * mib}, func(r *rig, n int, p place) (trial, error) {
		return gather(r, 64*kib, n, p)
	}),
	over([]place{onDevice, zeroCopy}, "1 Mi words scattered", "bytes of table", []int{64 * kib, 1 * mib, 16 * mib}, func(r *rig, n int, p place) (trial, error) {
		return intoTable(r, "scatter", mib, n, p)
	}),
	over([]place{onDevice, zeroCopy}, "64 Ki words scattered", "bytes of table", []int{64 * kib, 1 * mib, 16 * mib}, func(r *rig, n int, p place) (trial, error) {
		return intoTable(r, "scatter", 64*kib, n, p)
	}),
)

// gather reads count words of a table of n bytes.
func gather(r *rig, count, n int, p place) (trial, error) {
	index, err := r.input(indices(count, n/4), onDevice)
	if err != nil {
		return trial{}, err
	}
	table, err := r.input(ones(n), p)
	if err != nil {
		return trial{}, err
	}
	out, err := r.device(4 * count)
	return r.run(table, job{"gather", blocksFor(count), threads, pack(index.at, table.at, out, uint64(count))}), err
}

// intoTable runs a kernel that writes or adds to count words of a table of n bytes.
func intoTable(r *rig, kernel string, count, n int, p place) (trial, error) {
	index, err := r.input(indices(count, n/4), onDevice)
	if err != nil {
		return trial{}, err
	}
	table, err := r.input(ones(n), p)
	return r.run(table, job{kernel, blocksFor(count), threads, pack(index.at, table.at, uint64(count))}), err
}

// atomicKinds are histograms of random numbers. The numbers are in device memory if the kind
// does not say otherwise. The size is that of the table.
var atomicKinds = slices.Concat(
	histograms(1<<20, onDevice, []int{64, 4 * kib, 64 * kib, 1 * mib, 64 * mib}),
	histograms(1<<16, onDevice, []int{64, 4 * kib, 64 * kib, 1 * mib}),
	histograms(1<<16, zeroCopy, []int{64, 4 * kib, 64 * kib, 1 * mib, 64 * mib}),
	histograms(1<<12, zeroCopy, []int{64, 4 * kib, 1 * mib}),
	over(allPlaces, "histogram in shared memory of numbers", "numbers", []int{1 << 16, 1 << 20}, histogramShared),
)

func histograms(count int, p place, sizes []int) []kind {
	return over([]place{p}, fmt.Sprintf("histogram of %d Ki numbers", count>>10), "bytes of table", sizes, func(r *rig, n int, p place) (trial, error) {
		return intoTable(r, "histogram", count, n, p)
	})
}

// histogramShared counts numbers below 1024. The numbers are at the place, the table is in
// device memory.
func histogramShared(r *rig, count int, p place) (trial, error) {
	index, err := r.input(indices(count, 1024), p)
	if err != nil {
		return trial{}, err
	}
	table, err := r.device(4 * 1024)
	return r.run(index, job{"histogram_shared", min(blocksFor(count), 528), threads, pack(index.at, table, uint64(count))}), err
}
