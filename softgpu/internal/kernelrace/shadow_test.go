package kernelrace

import "testing"

// touches is a pattern of accesses to global and shared memory.
type touches struct {
	name  string
	limit float64 // bytes of records for a byte touched
	run   func(d *Detector, access func(b *Block, t int, a Access))
}

const (
	touchThreads = 256
	touchBlocks  = 16
)

// each lets the threads of all blocks access memory of n bytes each, side by side.
func each(n int, kind Kind) func(*Detector, func(*Block, int, Access)) {
	return func(d *Detector, access func(*Block, int, Access)) {
		for i := range touchBlocks {
			b := d.Block(uint64(i), 0)
			for t := range touchThreads {
				access(b, t, Access{Addr: uint64(i*touchThreads+t) * uint64(n), Bytes: n, Kind: kind, Inst: 1})
			}
		}
	}
}

// vectorAddition reads two arrays of floats and writes a third.
func vectorAddition(d *Detector, access func(*Block, int, Access)) {
	for i := range touchBlocks {
		b := d.Block(uint64(i), 0)
		for t := range touchThreads {
			for array, kind := range []Kind{0, 0, Write} {
				access(b, t, Access{Addr: uint64(array)<<20 + uint64(i*touchThreads+t)*4, Bytes: 4, Kind: kind, Inst: array})
			}
		}
	}
}

// inPlace reads an array of floats and writes it.
func inPlace(d *Detector, access func(*Block, int, Access)) {
	for i := range touchBlocks {
		b := d.Block(uint64(i), 0)
		for n := range 2 * touchThreads {
			t := n/64*32 + n%32 // warp by warp
			access(b, t, Access{Addr: uint64(i*touchThreads+t) * 4, Bytes: 4, Kind: Kind(n / 32 % 2), Inst: n / 32 % 2})
		}
	}
}

// tiledProduct multiplies matrices of 64 by 64 floats in tiles of 16 by 16.
func tiledProduct(d *Detector, access func(*Block, int, Access)) {
	const n, tile = 64, 16
	for i := range n / tile * n / tile {
		b, row, column := d.Block(uint64(i), 2*tile*tile*4), i/(n/tile)*tile, i%(n/tile)*tile
		for k := 0; k < n; k += tile {
			for t := range tile * tile {
				y, x := t/tile, t%tile
				access(b, t, Access{Addr: uint64((row+y)*n+k+x) * 4, Bytes: 4, Inst: 1})
				access(b, t, Access{Addr: 1<<20 + uint64((k+y)*n+column+x)*4, Bytes: 4, Inst: 2})
				access(b, t, Access{Shared: true, Addr: uint64(t) * 4, Bytes: 4, Kind: Write, Inst: 3})
				access(b, t, Access{Shared: true, Addr: uint64(t+tile*tile) * 4, Bytes: 4, Kind: Write, Inst: 4})
			}
			meet(b)
			for t := range tile * tile * tile {
				t, j := t/tile, t%tile
				access(b, t, Access{Shared: true, Addr: uint64(t/tile*tile+j) * 4, Bytes: 4, Inst: 5})
				access(b, t, Access{Shared: true, Addr: uint64(tile*tile+j*tile+t%tile) * 4, Bytes: 4, Inst: 6})
			}
			meet(b)
		}
		for t := range tile * tile {
			access(b, t, Access{Addr: 2<<20 + uint64((row+t/tile)*n+column+t%tile)*4, Bytes: 4, Kind: Write, Inst: 7})
		}
	}
}

// meet lets all threads of a block pass a barrier.
func meet(b *Block) {
	for w := range b.warps() {
		b.Arrive(0, w, b.full(w), true, 8)
	}
	b.Open(0)
}

// stencil lets each thread read three neighbours of one byte and write one.
func stencil(d *Detector, access func(*Block, int, Access)) {
	for i := range touchBlocks {
		b := d.Block(uint64(i), 0)
		for inst := range 3 {
			for t := range touchThreads {
				access(b, t, Access{Addr: uint64(i*touchThreads + t + inst), Bytes: 1, Inst: inst})
			}
		}
		for t := range touchThreads {
			access(b, t, Access{Addr: 1<<20 + uint64(i*touchThreads+t), Bytes: 1, Kind: Write, Inst: 3})
		}
	}
}

// unrolled lets each thread write four bytes by four instructions.
func unrolled(d *Detector, access func(*Block, int, Access)) {
	for i := range touchBlocks {
		b := d.Block(uint64(i), 0)
		for inst := range 4 {
			for t := range touchThreads {
				access(b, t, Access{Addr: uint64(i*touchThreads+t)*4 + uint64(inst), Bytes: 1, Kind: Write, Inst: inst})
			}
		}
	}
}

// scattered lets threads write the bytes of a page in an order without a pattern.
func scattered(d *Detector, access func(*Block, int, Access)) {
	for i := range touchBlocks {
		b := d.Block(uint64(i), 0)
		for t := range touchThreads {
			access(b, t, Access{Addr: uint64(i*touchThreads+t) * 2053 % 4096, Bytes: 1, Kind: Write, Inst: 1})
		}
	}
}

// readers lets four warps of each block read the same words.
func readers(d *Detector, access func(*Block, int, Access)) {
	for i := range touchBlocks {
		b := d.Block(uint64(i), 0)
		for word := range 1024 {
			for t := range 8 {
				access(b, t/2*warpSize+t%2, Access{Addr: uint64(word) * 4, Bytes: 4, Inst: 1})
			}
		}
	}
}

// histogram lets all threads count in the words of a page.
func histogram(d *Detector, access func(*Block, int, Access)) {
	kind := (Write | Strong | Atomic).With(Device)
	for i := range touchBlocks {
		b := d.Block(uint64(i), 0)
		for n := range 16 * touchThreads {
			access(b, n%touchThreads, Access{Addr: uint64(n) * 2654435761 % 1024 * 4, Bytes: 4, Kind: kind, Inst: 1, Update: true})
		}
	}
}

// TestShadowOfStrips counts the bytes of records for pixels of three bytes that warps write and read, with
// their neighbours.
func TestShadowOfStrips(t *testing.T) {
	d := New(touchThreads)
	d.Values = noValues{}
	for i := range touchBlocks {
		b := d.Block(uint64(i), 0)
		for warp := range touchThreads / warpSize {
			at := uint64(i*touchThreads+warp*warpSize)*3 + 3
			for inst, a := range []Access{{Addr: 1<<20 + at, Kind: Write}, {Addr: at - 3}, {Addr: at}, {Addr: at + 3}} {
				for channel := range 3 {
					a.Inst, a.Bytes = 3*inst+channel, 1
					if b.Strip(warp*warpSize, 1, warpSize, 3, &a) != warpSize {
						t.Fatalf("block %d, warp %d: not kept as strips", i, warp)
					}
					a.Addr++
				}
			}
		}
	}
	got := float64(d.shadow()) / (touchBlocks * touchThreads * 2 * 3)
	t.Logf("%.2f bytes of records for a byte touched", got)
	if got > 4 || len(d.Findings()) != 0 {
		t.Errorf("%.2f bytes of records for a byte touched, want at most 4; findings %v", got, d.Findings())
	}
}

// TestShadow counts the bytes of records that accesses need.
func TestShadow(t *testing.T) {
	for _, p := range []touches{
		{"vector addition", 0.3, vectorAddition},
		{"addition in place", 0.3, inPlace},
		{"tiled product", 9, tiledProduct},
		{"8 bytes", 0.3, each(8, Write)},
		{"2 bytes", 8.4, each(2, Write)},
		{"1 byte", 8.4, each(1, Write)},
		{"stencil of bytes", 8.6, stencil},
		{"unrolled bytes", 17.4, unrolled},
		{"scattered bytes", 17.4, scattered},
		{"many readers", 9, readers},
		{"atomic histogram", 9, histogram},
	} {
		t.Run(p.name, func(t *testing.T) {
			d := New(touchThreads)
			d.Values = noValues{}
			touched, shared := map[uint64]bool{}, 0
			p.run(d, func(b *Block, thread int, a Access) {
				for i := range uint64(a.Bytes) {
					if !a.Shared {
						touched[a.Addr+i] = true
					}
				}
				shared = len(b.shared) * wordBytes // the records of a block end with it
				b.Access(thread, &a)
			})
			got := float64(d.shadow()+shared*8) / float64(len(touched)+shared)
			t.Logf("%.2f bytes of records for a byte touched", got)
			if got > p.limit || len(d.Findings()) != 0 {
				t.Errorf("%.2f bytes of records for a byte touched, want at most %.1f; findings %v", got, p.limit, d.Findings())
			}
		})
	}
}

// shadow returns how many bytes the records of global memory have.
func (d *Detector) shadow() int {
	n := len(d.pages)*pageLines*32 + (len(d.cells)-1)*(lineWords*32+8)
	for _, l := range d.more {
		n += 24 + cap(l)*12
	}
	for _, l := range d.strips {
		n += 24 + cap(l)*32
	}
	return n
}
