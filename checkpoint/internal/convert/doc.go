// Package convert converts tensors on a GPU, and hashes device memory, by kernels of its own. [Load]
// loads the kernels of some pairs of kinds. [Kernels.LaunchPieces] converts any number of tensors, and
// [Kernels.Hash] hashes any number of ranges.
//
// A number becomes the nearest number of the new kind. Of two that are as near, it becomes the one with
// an even last bit. Denormal numbers are exact. Infinity, and a number that rounds to more than the
// largest, become infinity. In E4M3, which has no infinity, they become NaN. Nothing is cut to the
// largest number: PyTorch's to(torch.float8_e4m3fn) does the same. A NaN keeps its sign, and has all
// other bits set.
//
// Blocks of GGUF become the floats of 32 bits that ggml's C code computes of them, bit by bit, and
// those are rounded to halves and bfloat16. A NaN there, from a scale that is NaN or infinity, has no
// sign.
//
// The hash shows that bytes are equal, and equal bytes are at equal places. It finds blocks that are
// missing, moved, exchanged or zeros. Other bytes have the same hash with a probability of 2^-64. It does
// not protect against an attacker: it has no key, and such bytes can be computed.
//
// convert.ptx is what a public command makes of convert.cu, without comments and with the ISA
// version that the instructions need. Every GPU since Turing runs it, and so does the software GPU.
// To make it again (go generate ./... does so too):
//
//	go test ./checkpoint/internal/convert -run TestPTX -update   # ferry compile convert.cu --arch sm_75
package convert
