// Package cutest is the conformance suite for implementations of [cu.Driver]. It is
// one table of cases. Each case is named for a rule of NVIDIA's manuals and cites the
// place of the rule.
//
// [Run] runs all cases on a driver, for hardware or for a software GPU:
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
// Each case is a subtest with a watchdog. Gates test asynchronous work: a gate is a
// kernel that spins on a flag in mapped host memory until the host sets the flag. So
// it is certain, and no race, that work behind a gate is not done yet. Where the
// manuals are silent, a case demands what hardware did, and says so in
// [Case].Surprise. Properties of one machine, and results that depend on timing, are
// logged in lines "OBSERVE name=value".
//
// With FERRY_CUTEST_JSON=path in the environment the results are written to path as
// one JSON document. go generate makes docs/generated/coverage.md from [Cases] and the documents
// under docs/results.
//
// The package has no tests of speed, and no rules that are Ferry's and not CUDA's.
package cutest
