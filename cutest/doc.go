// Package cutest holds the conformance suite of the CUDA driver API as package
// cu words it: one table of cases, each named for a rule of NVIDIA's manuals and
// citing where the rule stands.
//
// [Run] runs all of it against any [cu.Driver], the real one or a software GPU:
//
//	func TestConformance(t *testing.T) {
//		cutest.Run(t, func(t testing.TB) cu.Driver {
//			d, err := mydriver.Open()
//			if err != nil {
//				t.Fatal(err)
//			}
//			return d
//		})
//	}
//
// Each case is a subtest with a watchdog. Asynchrony is tested by gates: kernels
// that spin on a flag in mapped host memory until the host lets them go, so that
// "not done yet" is a fact and not a race. What the manuals leave open is
// settled by what hardware did, and the case says so ([Case].Surprise); facts of
// one machine and what timing decides are told in lines "OBSERVE name=value".
//
// With FERRY_CUTEST_JSON=path in the environment the results are written there
// as one JSON document. go generate makes docs/COVERAGE.md from [Cases] and the
// documents under docs/results.
//
// What does not live here: tests of speed, and rules that are Ferry's own and
// not CUDA's.
package cutest
