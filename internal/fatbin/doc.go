// Package fatbin reads fatbins, the containers in which nvcc packs device code: PTX and
// machine code (cubins) for several architectures, plain or compressed with LZ4 or
// Zstandard. The software GPU takes its PTX from there; NVIDIA's driver reads them itself.
//
// NVIDIA does not document the format. These fields are known from public readers and from
// files of nvcc, which testdata has. All numbers are little-endian.
//
//	container: magic 0xba55ed50, version (2 bytes), size of this header (2),
//	           size of all entries (8)
//	entry:     kind (2), version (2), size of this header (4), size of the data with
//	           padding (8), size of the data if compressed (4), (4), PTX or cubin version
//	           (2+2), architecture (4), name (4+4), flags (8), (8), size of the data when
//	           decompressed (8)
//
// No size in a file is trusted: memory is bounded by what was decompressed, up to 64 MiB.
package fatbin
