// Package differ proves the software GPU against hardware, by difference: the
// same kernels with the same inputs on two drivers, every byte that comes out
// compared.
//
// [Cases] is the table: a kernel of testdata, how it is launched, with which
// arguments, made from a seed, and, where results may differ, a [Bound] with its
// reason. A [Bench] runs a case on any cu.Driver through package ferry. [Record]
// is what came out on hardware, kept in docs/results/differential-h200.json: so
// go test compares with a GPU that is not there. With FERRY_REQUIRE_GPU=1 both
// drivers run, with inputs that nobody has seen before.
//
// The kernels' sources are testdata/*.cu, and testdata/build.sh makes of them
// what several compilers say: testdata/ptx/FAMILY.TARGET.ptx.
//
// It stands in internal because it is a proof and no feature; it is apart from
// cutest, which asks what a driver's calls do, where this asks what kernels
// compute. Random programs are package internal/differ/random.
package differ
