// Package convert converts tensors on a GPU by kernels of its own. [Load] loads those of some
// pairs of kinds, and [Kernels.LaunchPieces] converts any number of tensors.
//
// A number becomes the nearest number of the new kind; of two that are as near, the one with an
// even last bit. Denormal numbers are exact. What is beyond the largest number and its rounding
// becomes infinity, and NaN in E4M3, which has no infinity. So does infinity itself. Nothing is cut
// to the largest number, as in PyTorch's to(torch.float8_e4m3fn). A NaN keeps its sign, and has all
// other bits set.
//
// convert.ptx is what a public command makes of convert.cu, without comments and with the ISA
// version that the instructions need. Every GPU since Turing runs it, and so does the software GPU.
// To make it again (go generate ./... does so too):
//
//	go test ./checkpoint/internal/convert -run TestPTX -update   # ferry compile convert.cu --arch sm_75
package convert
