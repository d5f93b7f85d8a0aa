package staging

import "testing"

// TestPlan: chunks cover all bytes once, none is larger than a slot, and they grow to the
// device and shrink from it.
func TestPlan(t *testing.T) {
	for _, set := range []Settings{small, sized(8<<20, 8, 128<<10, 1), sized(7, 1, 7, 1)} {
		for _, n := range []int64{0, 1, 6, 7, 8, 1023, 1024, 1025, 5000, 100_003, 1 << 20, 256<<20 + 1} {
			if n > 1<<20 && set.Chunk < 1<<10 {
				continue
			}
			for _, in := range []bool{true, false} {
				checkPlan(t, n, in, &set)
			}
		}
	}
}

func checkPlan(t *testing.T, n int64, in bool, set *Settings) {
	t.Helper()
	var off, blocks int64
	chunks := plan(nil, n, in, set.Chunk, set.Block)
	for i := range chunks {
		c := &chunks[i]
		if c.off != off || c.first != blocks || c.n <= 0 || c.n > int64(set.Chunk) || c.blocks != (c.n+int64(set.Block)-1)/int64(set.Block) || c.left.Load() != c.blocks {
			t.Fatalf("%d bytes, in %t: chunk %d has %d bytes at %d, and %d blocks from %d on", n, in, i, c.n, c.off, c.blocks, c.first)
		}
		off, blocks = off+c.n, blocks+c.blocks
	}
	if off != n {
		t.Fatalf("%d bytes, in %t: the chunks have %d bytes", n, in, off)
	}
	if n == 256<<20+1 && in != (chunks[0].n < chunks[len(chunks)/2].n) {
		t.Errorf("in %t: the first of %d chunks has %d bytes", in, len(chunks), chunks[0].n)
	}
}

// TestPlanGrows: the first chunk to the device is an eighth of a small transfer and half
// a slot of a large one. Chunks reach their full length soon.
func TestPlanGrows(t *testing.T) {
	set := sized(8<<20, 8, 128<<10, 12)
	for n, want := range map[int64]int64{1 << 20: 128 << 10, 8 << 20: 1 << 20, 32 << 20: 4 << 20, 256 << 20: 4 << 20} {
		chunks := plan(nil, n, true, set.Chunk, set.Block)
		if chunks[0].n != want || len(chunks) > int(n>>23)+4 {
			t.Errorf("%d bytes: the first of %d chunks has %d bytes, want %d", n, len(chunks), chunks[0].n, want)
		}
		for i := range chunks {
			if c := &chunks[i]; i > 0 && c.n > c.off {
				t.Errorf("%d bytes: chunk %d has %d bytes, and the chunks before it have %d", n, i, c.n, c.off)
			}
		}
	}
}

// TestPlanCrowded: chunks cover all bytes and blocks once.
func TestPlanCrowded(t *testing.T) {
	for _, n := range []int64{0, 1, 1023, 1024, 4096, 4097, 100_003} {
		var off, blocks int64
		chunks := planCrowded(nil, n, 4<<10, 1<<10)
		for i := range chunks {
			c := &chunks[i]
			if c.off != off || c.first != blocks || c.n <= 0 || c.n > 4<<10 || c.blocks != (c.n+1023)/1024 || c.left.Load() != c.blocks {
				t.Fatalf("%d bytes: chunk %d has %d bytes at %d, and %d blocks from %d on", n, i, c.n, c.off, c.blocks, c.first)
			}
			off, blocks = off+c.n, blocks+c.blocks
		}
		if off != n {
			t.Errorf("the chunks have %d bytes, want %d", off, n)
		}
	}
}
