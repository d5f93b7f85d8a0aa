package convert

import (
	"fmt"
	"math"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/ferrybind"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Piece is a part of a conversion: N numbers, which begin Dst and Src bytes after the memory.
type Piece struct{ Dst, Src, N int }

// Launch converts n numbers at the begin of src, and writes them to the begin of dst: see
// LaunchPieces.
func (k *Kernels) Launch(q ferry.Queue, dst, src ferry.Memory[byte], p Pair, n int) error {
	return k.LaunchPieces(q, dst, src, p, []Piece{{N: n}})
}

// LaunchPieces converts numbers of src and writes them to dst, in the order of the queue. It returns
// when the kernels are queued: a launch takes 128 pieces. Kernels must be able to use the memory. Pieces
// need no alignment. Those that begin at multiples of 16 bytes are fastest.
//
// A piece can be converted where it stands: dst and src are the same memory, Dst is Src, and the numbers
// of both kinds have the same size. Otherwise what a piece writes must not overlap with what this or
// another piece reads or writes: the result is undefined then.
//
// Nothing is queued if a piece is refused: one that is not within the memory, or not a whole number
// of blocks. The error wraps cu.ErrorInvalidValue. LaunchPieces is safe for concurrent use if the
// queue is.
func (k *Kernels) LaunchPieces(q ferry.Queue, dst, src ferry.Memory[byte], p Pair, pieces []Piece) error {
	switch {
	case k == nil || k.convert[p] == nil:
		return refusal.Invalid("convert %v: the kernel is not loaded: give the pair to Load", p)
	case dst == nil || src == nil:
		return refusal.Invalid("convert %v: no memory given (nil)", p)
	}
	for i, piece := range pieces {
		if err := p.check(piece, dst.Size(), src.Size()); err != nil {
			return fmt.Errorf("convert %v: piece %d: %w", p, i, err)
		}
	}
	for len(pieces) > 0 {
		var t table
		pieces = pieces[t.fill(pieces):]
		if err := k.launch(q, dst, src, p, &t); err != nil {
			return fmt.Errorf("convert %v: %w", p, err)
		}
	}
	return nil
}

// launch queues the pieces of a table.
func (k *Kernels) launch(q ferry.Queue, dst, src ferry.Memory[byte], p Pair, t *table) error {
	tiles := t.First[t.Count]
	if tiles == 0 {
		return nil
	}
	return ferrybind.Launch(k.convert[p], q, k.config(tiles), dst, src, *t)
}

// config returns the configuration for a number of tiles.
func (k *Kernels) config(tiles uint32) ferry.LaunchConfig {
	return ferry.Cover(int(min(tiles, uint32(k.blocks)))*threads, threads)
}

// check returns an error for a piece that is not within memory of these bytes.
func (p Pair) check(piece Piece, dst, src int) error {
	block, bytes := p.From.Block()
	_, out := p.To.Block()
	n, from, to := piece.N, piece.Src, piece.Dst
	switch {
	case n < 0 || from < 0 || to < 0:
		return refusal.Invalid("%d numbers from byte %d to byte %d: none may be negative", n, from, to)
	case n%block != 0:
		return refusal.Invalid("%d numbers: must be a multiple of %d, the numbers of a block", n, block)
	case n > maxNumbers:
		return refusal.Invalid("%d numbers: a piece has at most %d", n, maxNumbers)
	case from > src || n/block > (src-from)/bytes:
		return refusal.Invalid("%d numbers from byte %d on are not within the source, which has %s", n, from, refusal.Size(uintptr(src)))
	case to > dst || n > (dst-to)/out:
		return refusal.Invalid("%d numbers from byte %d on are not within the destination, which has %s", n, to, refusal.Size(uintptr(dst)))
	}
	return nil
}

// tablePieces is how many pieces a launch has at most.
const tablePieces = 128

// maxNumbers is how many numbers a piece has at most, because tiles are counted in 32 bits.
const maxNumbers = tile * math.MaxUint32

// table has the layout of struct Pieces in convert.cu.
type table struct {
	Dst, Src, N [tablePieces]uint64
	First       [tablePieces + 1]uint32
	Count       uint32
}

const piecesBytes = tablePieces*3*8 + (tablePieces+2)*4

// fill fills an empty table. It returns how many pieces fit, which is at least one.
func (t *table) fill(pieces []Piece) int {
	for i, p := range pieces {
		tiles := uint64(p.N/tile) + uint64(min(1, p.N%tile))
		if i == tablePieces || uint64(t.First[i])+tiles > math.MaxUint32 {
			return i
		}
		t.Dst[i], t.Src[i], t.N[i] = uint64(p.Dst), uint64(p.Src), uint64(p.N)
		t.First[i+1], t.Count = t.First[i]+uint32(tiles), uint32(i+1)
	}
	return len(pieces)
}
