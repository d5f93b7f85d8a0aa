package grid

import "slices"

// arithmeticKinds are kernels whose threads compute. Each step of a thread needs the step
// before. The size is the number of threads, or the size of the input with a word a thread.
var arithmeticKinds = slices.Concat(
	computes(10, []int{64 * kib, 256 * kib, 1 * mib}, bothWays),
	computes(100, []int{256 * kib, 1 * mib}, bothWays),
	computes(1000, []int{256 * kib, 16 * mib}, []place{zeroCopy}),
	computes(1000, []int{256 * kib}, []place{copyFirst}),
	steps("multiply-adds", "multiply_add", 32, 4096, 65536),
	steps("multiply-adds, float64", "multiply_add_double", 32, 4096, 65536),
	steps("multiplications of integers", "multiply_integers", 32, 65536),
	steps("square roots", "square_roots", 32, 4096, 65536),
	steps("exact square roots", "exact_square_roots", 32, 65536),
	steps("divisions", "divide", 32, 4096, 65536),
	steps("divisions, float64", "divide_double", 32, 65536),
	steps("divisions of integers", "divide_integers", 32, 4096, 65536),
	steps("sines", "sines", 32, 16384),
	steps("conversions", "convert", 32, 4096, 65536),
)

var computeNames = map[uint32]string{10: "10 multiply-adds a word", 100: "100 multiply-adds a word", 1000: "1000 multiply-adds a word"}

// computes returns kinds with the given number of steps for each word of the input.
func computes(times uint32, sizes []int, places []place) []kind {
	return over(places, computeNames[times], "bytes", sizes, func(r *rig, n int, p place) (trial, error) {
		return compute(r, "multiply_add", times, n/4, p)
	})
}

// steps returns a kind with 1000 steps a thread in device memory.
func steps(name, kernel string, sizes ...int) []kind {
	return over([]place{onDevice}, "1000 "+name, "threads", sizes, func(r *rig, n int, p place) (trial, error) {
		return compute(r, kernel, 1000, n, p)
	})
}

func compute(r *rig, kernel string, times uint32, count int, p place) (trial, error) {
	in, err := r.input(ones(4*count), p)
	if err != nil {
		return trial{}, err
	}
	out, err := r.device(4 * count)
	block := min(count, threads)
	return r.run(in, job{kernel, count / block, block, pack(in.at, out, uint64(count), times)}), err
}
