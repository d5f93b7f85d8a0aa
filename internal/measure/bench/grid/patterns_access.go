package grid

import "slices"

// accessKinds are kernels that read memory in several ways, once or again and again. The
// results go to device memory, except where the kind says so. The size is that of the input.
var accessKinds = slices.Concat(
	reads("own word once", "same_word", 1, []int{64 * kib, 1 * mib, 16 * mib}, bothWays),
	reads("own word 4 times", "same_word", 4, []int{64 * kib, 1 * mib, 16 * mib}, bothWays),
	reads("all words in 1 pass", "passes", 1, []int{64 * kib, 256 * kib, 1 * mib, 4 * mib, 16 * mib}, bothWays),
	reads("all words in 4 passes", "passes", 4, []int{64 * kib, 256 * kib, 1 * mib, 4 * mib, 16 * mib}, bothWays),
	reads("all words in 4 passes", "passes", 4, []int{1 * mib, 16 * mib}, []place{onDevice}),
	reads("all words in 16 passes", "passes", 16, []int{64 * kib, 1 * mib}, bothWays),
	reads("3 neighbours", "neighbours", 3, []int{64 * kib, 1 * mib, 16 * mib}, bothWays),
	reads("9 neighbours", "neighbours", 9, []int{64 * kib, 256 * kib, 1 * mib, 16 * mib}, bothWays),
	reads("9 neighbours", "neighbours", 9, []int{1 * mib, 16 * mib}, []place{onDevice}),
	reads("table of 64 KiB in all blocks, once", "shared_table", 1, []int{16 * kib, 64 * kib, 1 * mib}, bothWays),
	reads("table of 64 KiB in all blocks, 4 times", "shared_table", 4, []int{16 * kib, 64 * kib, 1 * mib}, bothWays),
	over(allPlaces, "row of 256 words a thread", "bytes", []int{256 * kib, 1 * mib, 4 * mib}, func(r *rig, n int, p place) (trial, error) {
		return sums(r, n, p, "row_sums", 256, n/1024)
	}),
	over([]place{onDevice, zeroCopy}, "column of 256 words a thread", "bytes", []int{256 * kib, 1 * mib, 4 * mib}, func(r *rig, n int, p place) (trial, error) {
		return sums(r, n, p, "column_sums", n/1024, 256)
	}),
	[]kind{
		{"transpose, zero-copy in", "bytes", []int{256 * kib, 1 * mib, 4 * mib}, func(r *rig, n int) (trial, error) { return transpose(r, n, zeroCopy, onDevice) }},
		{"transpose, zero-copy out", "bytes", []int{256 * kib, 1 * mib, 4 * mib}, func(r *rig, n int) (trial, error) { return transpose(r, n, onDevice, zeroCopy) }},
		{"transpose, device", "bytes", []int{1 * mib, 16 * mib}, func(r *rig, n int) (trial, error) { return transpose(r, n, onDevice, onDevice) }},
	},
	over(allPlaces, "product of matrices", "bytes each", []int{16 * kib, 64 * kib, 256 * kib}, product),
)

// reads returns the kinds of a kernel that reads each word the given number of times.
func reads(name, kernel string, times uint32, sizes []int, places []place) []kind {
	return over(places, name, "bytes", sizes, func(r *rig, n int, p place) (trial, error) {
		blocks := readingBlocks(kernel, n/4)
		in, err := r.input(ones(n), p)
		if err != nil {
			return trial{}, err
		}
		out, err := r.device(4 * threads * blocks)
		return r.run(in, job{kernel, blocks, threads, pack(in.at, out, uint64(n/4), times)}), err
	})
}

// readingBlocks returns how many blocks read n words.
func readingBlocks(kernel string, n int) int {
	switch kernel {
	case "passes":
		return 528
	case "shared_table":
		return 512
	}
	return blocksFor(n)
}

// sums measures a kernel that adds words in one direction of a matrix.
func sums(r *rig, n int, p place, kernel string, width, height int) (trial, error) {
	in, err := r.input(ones(n), p)
	if err != nil {
		return trial{}, err
	}
	out, err := r.device(n / 256)
	return r.run(in, job{kernel, blocksFor(n / 1024), threads, pack(in.at, out, uint64(width), uint64(height))}), err
}

// transpose transposes a square matrix of n bytes.
func transpose(r *rig, n int, from, to place) (trial, error) {
	in, err := r.input(ones(n), from)
	if err != nil {
		return trial{}, err
	}
	out, err := r.input(ones(n), to)
	width := side(n / 4)
	return r.run(in, job{"transpose", width / 32 * width / 32, threads, pack(in.at, out.at, uint32(width))}), err
}

// side returns the side of a square of n, which is a power of four.
func side(n int) int {
	w := 1
	for w*w < n {
		w *= 2
	}
	return w
}

// product multiplies two square matrices of n bytes.
func product(r *rig, n int, p place) (trial, error) {
	a, err := r.input(ones(n), p)
	if err != nil {
		return trial{}, err
	}
	b, err := r.input(ones(n), p)
	if err != nil {
		return trial{}, err
	}
	c, err := r.device(n)
	t := r.run(b, job{"multiply", n / 4 / threads, threads, pack(a.at, b.at, c, uint32(side(n/4)))})
	if a.bring == nil {
		return t, err
	}
	second := t.step
	t.step = func() error {
		if err := a.bring(); err != nil {
			return err
		}
		return second()
	}
	return t, err
}
