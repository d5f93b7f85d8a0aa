// Package kerneltest tests kernels: it runs one kernel over generated inputs, on the
// software GPU and on an NVIDIA GPU if there is one, and compares every element of the
// results with a reference in Go.
//
//	func TestSaxpy(t *testing.T) {
//		kerneltest.Run(t, &kerneltest.Case{
//			File: "kernels.ptx", Kernel: "saxpy",
//			Args: []string{"s32=N", "f32=2", "in:f32=random[N]", "inout:f32=random[N]"},
//			Want: func(a *kerneltest.Args) {
//				x, y := kerneltest.Slice[float32](a, 2), kerneltest.Slice[float32](a, 3)
//				for i := range y {
//					y[i] += 2 * x[i]
//				}
//			},
//		})
//	}
//
// # Arguments
//
// Arguments are text, in the order of the kernel's parameters, as for "ferry run":
//
//	u32=7  s64=-1  f32=0.5  b16=0x3c00    scalars
//	struct=f32:0.5,u32:7,8                a structure by value, aligned as in C; the last field is u32 too
//	in:f32=random[1024]                   a buffer that the kernel reads: random numbers in [0,1)
//	in:f32=random[1024]:-1..1             random numbers between two limits
//	in:f32=whole[1024]:-8..8              random integers, for sums that are exact in any order
//	in:u32=iota[1024]                     0, 1, 2, ...
//	in:f32=1,2,3                          values
//	in:u8=@FILE                           the bytes of a file
//	out:f32=[16]                          a buffer that the kernel writes
//	inout:f32=random[16]                  a buffer that the kernel reads and writes
//	inout:u32=[16]                        the same, with zeros
//
// The types are those of PTX: u8 to u64, s8 to s64, b8 to b64 (bit patterns), f16, bf16,
// f32 and f64. The word N stands for each of [Case.Sizes] in turn. The number of elements
// may be a product: random[N*N], [480*640].
//
// Random numbers depend on [Case.Seed], the position of the argument and the index of the
// element, and on nothing else. "ferry help run" defines them.
//
// # What is checked
//
// Each element of the out and inout buffers must be what [Case.Want] wrote, within
// [Case.Tolerance]. An out buffer begins with a fill pattern and not with zeros, so that
// an element which the kernel forgets is found. Buffers for in must not change. Nothing
// outside of the buffers may be written: the software GPU reports the access, and on
// hardware there are guard bands around each buffer. Each size runs with each
// configuration, so a result that depends on the block size is found. The results of
// another build of the module, [Case.Other], must have the same bits.
//
// A failure names the kernel, device, configuration, seed and argument, shows the first
// differences with their indices, and has a "ferry run" command that makes the same
// launch. A module has the command after
// go get -tool github.com/ferrygpu/ferry/cmd/ferry.
//
// # Devices
//
// The subtest "soft" uses the software GPU, the subtest "cuda" the first NVIDIA GPU. The
// latter is skipped if there is none, or fails with FERRY_REQUIRE_GPU=1. FERRY_DEVICE
// changes the device of its subtest: with cuda:1 there are "soft" and "cuda", with
// soft:gh200 there is only "soft", unless a GPU is required. FERRY_SCHEDULE and
// FERRY_KERNEL_LIMIT work as always; the latter ends a kernel that would never end.
package kerneltest
