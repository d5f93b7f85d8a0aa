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

// ReadsCached reports whether DirectAuto reads all tensors of the options through the page cache.
func (c *Checkpoint) ReadsCached(t testing.TB, o *Options) bool {
	t.Helper()
	plan, err := c.place(o)
	if err != nil {
		t.Fatal(err)
	}
	auto := *o
	auto.Direct = DirectAuto
	files, err := openSources(plan, &auto)
	if err != nil {
		t.Fatal(err)
	}
	cached := true
	for _, s := range files {
		cached = cached && s.direct.Load() == nil
	}
	if err := files.close(); err != nil {
		t.Error(err)
	}
	return cached
}
