// Package oracle checks every instruction that simt runs against two independent
// sources: exact arithmetic, and the results of an H200 for the same inputs.
//
// The package has tests only. Each form of [ptxforms.Forms] gets a kernel that runs
// that one instruction in 512 threads, on special values and on random ones. The
// results recorded on hardware are in testdata. FERRY_REQUIRE_GPU=1 with -update
// records them again.
package oracle
