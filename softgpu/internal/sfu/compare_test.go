package sfu_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Results are hashed in chunks, which are computed in pieces at the same time.
const (
	chunkSize = 1 << 24
	pieceSize = 1 << 20
)

// A comparison is of all results of a form with those of the functions in Go.
type comparison struct {
	Form      string   `json:"form"`
	Inputs    uint64   `json:"inputs"`
	Different uint64   `json:"different"`
	ULP       uint32   `json:"ulp,omitempty"`      // the largest difference, of the words of results
	Examples  []string `json:"examples,omitempty"` // number, result of the GPU, result in Go
	// Hashes has the hashes of the results of the GPU: one for each chunk of operands.
	Hashes []string `json:"hashes"`
}

// extend returns the hash of a sequence that continues one with the hash h.
func extend(h, v uint64) uint64 {
	h = (h ^ v) * mixA
	return h ^ h>>29
}

// A piece is a comparison of successive results.
type piece struct {
	hash      uint64
	different uint64
	ulp       uint32
	examples  []string
}

// comparePiece compares results from the number first on. It compares nothing, and hashes
// the results in Go, if got is nil.
func comparePiece(f *form, first uint64, n int, got []uint32) (p piece) {
	p.hash = mixB
	for i := range n {
		v := first + uint64(i)
		want := f.result(v)
		r := want
		if got != nil {
			r = got[i]
		}
		p.hash = extend(p.hash, uint64(r))
		if r == want {
			continue
		}
		p.different++
		p.ulp = max(p.ulp, max(r, want)-min(r, want))
		if len(p.examples) < 4 {
			p.examples = append(p.examples, fmt.Sprintf("%#x %08x %08x", v, r, want))
		}
	}
	return p
}

// pieces runs do for each piece of n results, on all processors, in any order.
func pieces(n int, do func(i, from, to int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				do(i, i*pieceSize, min(n, (i+1)*pieceSize))
			}
		})
	}
	for i := range (n + pieceSize - 1) / pieceSize {
		next <- i
	}
	close(next)
	group.Wait()
}

// add compares the results from the number first on: whole chunks, or all of a form.
func (c *comparison) add(f *form, first uint64, n int, got []uint32) {
	list := make([]piece, (n+pieceSize-1)/pieceSize)
	pieces(n, func(i, from, to int) {
		var part []uint32
		if got != nil {
			part = got[from:to]
		}
		list[i] = comparePiece(f, first+uint64(from), to-from, part)
	})
	for chunk := range slices.Chunk(list, chunkSize/pieceSize) {
		h := uint64(mixB)
		for _, p := range chunk {
			h = extend(h, p.hash)
			c.Different += p.different
			c.ULP = max(c.ULP, p.ulp)
			c.Examples = append(c.Examples, p.examples...)
		}
		c.Hashes = append(c.Hashes, fmt.Sprintf("%016x", h))
	}
	if len(c.Examples) > 64 { // from places far apart
		step := len(c.Examples) / 32
		for i := range 32 {
			c.Examples[i] = c.Examples[i*step]
		}
		c.Examples = c.Examples[:32]
	}
}

// TestComparison: results of the functions in Go have the hash of no results, and a wrong
// one is found.
func TestComparison(t *testing.T) {
	f := forms()[3]
	const first, n = 0x3f800000, 3*pieceSize + 5
	results := make([]uint32, n)
	for i := range results {
		results[i] = f.result(first + uint64(i))
	}
	var hashed, same, wrong comparison
	hashed.add(&f, first, n, nil)
	same.add(&f, first, n, results)
	results[2*pieceSize+7] ^= 2
	wrong.add(&f, first, n, results)
	if same.Different != 0 || same.Hashes[0] != hashed.Hashes[0] {
		t.Errorf("equal results: %+v, hash %v", same, hashed.Hashes)
	}
	if wrong.Different != 1 || wrong.ULP != 2 || len(wrong.Examples) != 1 || wrong.Hashes[0] == same.Hashes[0] {
		t.Errorf("one wrong result: %+v", wrong)
	}
}
