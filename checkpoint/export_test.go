package checkpoint

import "testing"

// SetDirectAlign lets reads past the page cache have another alignment until the end of the test.
func SetDirectAlign(t testing.TB, n int64) {
	before := directAlign
	directAlign = n
	t.Cleanup(func() { directAlign = before })
}

// SetPieces lets conversions work in pieces of these bytes until the end of the test.
func SetPieces(t testing.TB, staging, inPlace int64) {
	s, a := stagingBytes, atOnce
	stagingBytes, atOnce = staging, inPlace
	t.Cleanup(func() { stagingBytes, atOnce = s, a })
}
