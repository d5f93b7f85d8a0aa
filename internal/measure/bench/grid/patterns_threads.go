package grid

import "slices"

// threadKinds are kernels of few threads, or of all that fit, on 4 MiB. The size is the
// number of threads.
var threadKinds = slices.Concat(
	over([]place{onDevice, zeroCopy}, "4 MiB changed in place, large blocks", "threads", []int{32, 256, 1024, 4096, 32768}, func(r *rig, n int, p place) (trial, error) {
		return onFourMiB(r, n, p, "change", 1024)
	}),
	over(bothWays, "4 MiB read", "threads", []int{256, 1024, 2048, 8192, 32768, 131072}, func(r *rig, n int, p place) (trial, error) {
		return onFourMiB(r, n, p, "add_up", threads)
	}),
	over([]place{onDevice}, "4 MiB read", "threads", []int{256, 2048, 32768}, func(r *rig, n int, p place) (trial, error) {
		return onFourMiB(r, n, p, "add_up", threads)
	}),
	over([]place{onDevice, zeroCopy}, "4 MiB written", "threads", []int{256, 2048, 32768}, func(r *rig, n int, p place) (trial, error) {
		return onFourMiB(r, n, p, "write_all", threads)
	}),
)

// onFourMiB runs a kernel of count threads, in blocks no larger than most threads.
func onFourMiB(r *rig, count int, p place, kernel string, most int) (trial, error) {
	const n = 4 * mib
	in, err := r.input(ones(n), p)
	if err != nil {
		return trial{}, err
	}
	block := min(count, most)
	params := pack(in.at, uint64(n/4))
	if kernel == "add_up" {
		out, err := r.device(4 * count)
		if err != nil {
			return trial{}, err
		}
		params = pack(in.at, out, uint64(n/4))
	}
	return r.run(in, job{kernel, count / block, block, params}), nil
}

// chaseKinds are chains of 1000 loads. The next index is what the last load returned. The
// size is that of the table, or the number of threads, each with a chain of its own.
var chaseKinds = slices.Concat(
	over([]place{onDevice, zeroCopy}, "chain of volatile loads", "bytes of table", tables, func(r *rig, n int, p place) (trial, error) {
		return chase(r, "chase_volatile", n, 1, p)
	}),
	over([]place{onDevice, zeroCopy}, "chain of loads", "bytes of table", tables, func(r *rig, n int, p place) (trial, error) {
		return chase(r, "chase", n, 1, p)
	}),
	over([]place{onDevice, zeroCopy}, "chains in 4 MiB", "threads", []int{32, 1024, 16384}, func(r *rig, count int, p place) (trial, error) {
		return chase(r, "chase", 4*mib, count, p)
	}),
	over([]place{copyFirst}, "chain of loads", "bytes of table", []int{4 * kib, 256 * kib, 4 * mib}, func(r *rig, n int, p place) (trial, error) {
		return chase(r, "chase", n, 1, p)
	}),
)

// tables are the sizes of tables for chains: from what fits a multiprocessor's cache to
// what no cache holds.
var tables = []int{4 * kib, 16 * kib, 256 * kib, 4 * mib, 64 * mib}

// chase measures chains in a table of n bytes. With one thread a chain has 1000 steps, with
// more it has 100.
func chase(r *rig, kernel string, n, count int, p place) (trial, error) {
	in, err := r.input(cycle(n/4), p)
	if err != nil {
		return trial{}, err
	}
	steps := uint32(1000)
	if count > 1 {
		steps = 100
	}
	out, err := r.device(4 * count)
	block := min(count, threads)
	return r.run(in, job{kernel, count / block, block, pack(in.at, out, steps)}), err
}

// cycle returns a table of n indices, a power of two. From each index the next ones lead
// through all others in an order that looks random.
func cycle(n int) []byte {
	order := make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := random(i) % uint32(i+1)
		order[i], order[j] = order[j], order[i]
	}
	next := make([]uint32, n)
	for i, at := range order {
		next[at] = order[(i+1)%n]
	}
	return words(n, func(i int) uint32 { return next[i] })
}
