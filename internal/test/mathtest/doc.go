// Package mathtest tests the functions of kernels/ferry/math.h: their largest errors
// against package bigmath, their special values, and that their bits on a GPU are those of
// the software GPU. It has tests only.
//
// The tests run testdata/math.ptx.gz, which clang-19 made from the header, so that they
// need no compiler. TestCompile makes the same results from the present header. After a
// change of the header:
//
//	go test ./internal/test/mathtest -run 'TestCompile|TestAccuracy|TestDocs' -update
//
// FERRY_MATH_POINTS is the number of random arguments of each function; the recorded errors
// are from FERRY_MATH_POINTS=200000. On a machine with a GPU, without Go or clang:
//
//	CGO_ENABLED=0 go test -c ./internal/test/mathtest
//	cd internal/test/mathtest && FERRY_REQUIRE_GPU=1 FERRY_COMMIT=... ./mathtest.test -test.run TestHardware -update
package mathtest
