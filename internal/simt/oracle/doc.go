// Package oracle checks every instruction that simt runs against something that
// is not simt: exact arithmetic, and what an H200 did with the same inputs.
//
// There is nothing here but tests. Each form of [simt.Forms] gets a kernel that
// does that one instruction for 512 threads, on special values and random ones.
// Results recorded on hardware are in testdata; FERRY_REQUIRE_GPU=1 with -update
// records them again.
package oracle
