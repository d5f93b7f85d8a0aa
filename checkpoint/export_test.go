package checkpoint

import "testing"

// SetPieces lets conversions work in pieces of these bytes until the end of the test.
func SetPieces(t testing.TB, staging, inPlace int64) {
	s, a := stagingBytes, atOnce
	stagingBytes, atOnce = staging, inPlace
	t.Cleanup(func() { stagingBytes, atOnce = s, a })
}
