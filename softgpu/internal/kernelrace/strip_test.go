package kernelrace

import "testing"

// TestStaleStrips: a warp that has written bytes and loads them by non-coherent loads is reported, although each
// thread loads its own.
func TestStaleStrips(t *testing.T) {
	for _, stride := range []uint64{1, 3, 4} {
		d := New(warpSize)
		d.Values = noValues{}
		b := d.Block(0, 0)
		size := 1
		if stride == 4 {
			size = 4
		}
		write := Access{Bytes: size, Kind: Write, Inst: 1}
		if n := b.Strip(0, 1, warpSize, stride, &write); n != warpSize {
			t.Fatalf("stride %d: %d lanes of the write were checked at once", stride, n)
		}
		load := Access{Bytes: size, Inst: 2, NonCoherent: true}
		for i := b.Strip(0, 1, warpSize, stride, &load); i < warpSize; i++ {
			a := load
			a.Addr += uint64(i) * stride
			b.Access(i, &a)
		}
		if f := d.Findings(); len(f) != 1 || f[0].Sort != Stale || f[0].Count != warpSize {
			t.Errorf("stride %d: findings %+v, want %d stale loads", stride, f, warpSize)
		}
	}
}
