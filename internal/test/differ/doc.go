// Package differ has differential tests of the software GPU against hardware. The same
// kernels run with the same inputs on two drivers, and every byte of the outputs is
// compared.
//
// [Cases] is the table. A case has a kernel of testdata, its launch and its arguments,
// which are generated from a seed. If results may differ, it has a [Bound] with a reason.
// A [Bench] runs a case on any cu.Driver through package ferry. A [Record] has the
// outputs of hardware. It is stored in docs/results/differential-h200.json, so that
// go test compares with hardware on any machine. With FERRY_REQUIRE_GPU=1 both drivers
// run, also with inputs from a new seed.
//
// The kernels' sources are testdata/*.cu. testdata/build.sh compiles them with several
// compilers to testdata/ptx/FAMILY.TARGET.ptx.
//
// Package cutest tests what the calls of a driver do; this package tests what kernels
// compute. Package random has random programs.
package differ
