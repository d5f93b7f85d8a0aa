package ferry_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestPinnedPoolZero closes buffers with contents, and takes memory of the pool again. With
// Zero the next owner sees none of them; without, the memory is the same and has them.
func TestPinnedPoolZero(t *testing.T) {
	g := openTest(t)
	for _, zero := range []bool{false, true} {
		p := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Zero: zero}))(t)
		seen := 0
		for _, n := range []int{100, 5000, 100, 300000, 99, 5000, 4999, 300000} {
			h := must(ferry.AllocHost[uint32](g, n, &ferry.HostOptions{Pool: p}))(t)
			words := h.Slice()
			if slices.ContainsFunc(words, func(v uint32) bool { return v != 0 }) {
				seen++
			}
			for i := range words {
				words[i] = 0xdeadbeef
			}
			closeAll(t, h)
		}
		if (seen > 0) == zero {
			t.Errorf("zero %t: %d buffers with contents", zero, seen)
		}
		closeAll(t, p)
	}
}

// TestMemPoolZero does the same with memory of the device. The software GPU gives a stream the
// memory that it has freed, if the size is the same and the host has not waited since.
func TestMemPoolZero(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	for _, zero := range []bool{false, true} {
		p := must(ferry.NewMemPool(g, &ferry.MemPoolOptions{Zero: zero, Keep: 1 << 20}))(t)
		seen := 0
		for _, n := range []int{100, 100, 5000, 5000, 99, 99, 5000} {
			d := must(ferry.AllocAsync[uint32](s, n, p))(t)
			if got := must(ferry.Download[uint32](d))(t); slices.ContainsFunc(got, func(v uint32) bool { return v != 0 }) {
				seen++
			}
			check(t, ferry.Fill(s, d, 0xdeadbeef))
			closeAll(t, d)
		}
		if zero && seen > 0 || !zero && seen == 0 && g.Emulated() {
			t.Errorf("zero %t: %d buffers with contents", zero, seen)
		}
		closeAll(t, p)
	}
	closeAll(t, s)
}

// TestMemPoolZeroFails: if the memory cannot be cleared, it is freed and not given out.
func TestMemPoolZeroFails(t *testing.T) {
	soft := must(softgpu.Open(softgpu.Options{}))(t)
	d := fault.Wrap(soft, fault.Options{Call: "cuMemsetD8Async", Nth: 1, Code: cu.ErrorInvalidValue})
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	p := must(ferry.NewMemPool(g, &ferry.MemPoolOptions{Zero: true}))(t)
	_, err := ferry.AllocAsync[uint32](s, 100, p)
	wantError(t, err, cu.ErrorInvalidValue, "clear")
	closeAll(t, p, s, g)
	if live := d.Live(); len(live) > 0 {
		t.Errorf("left %v", live)
	}
}

// BenchmarkPinnedPoolZero allocates and closes a buffer, cleared or not.
func BenchmarkPinnedPoolZero(b *testing.B) {
	for _, bytes := range []int{4 << 10, 1 << 20, 16 << 20} {
		for _, zero := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/zero=%t", bytes, zero), func(b *testing.B) {
				g := openTest(b)
				p, err := ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Zero: zero})
				if err != nil {
					b.Fatal(err)
				}
				var h ferry.Host[byte]
				b.ReportAllocs()
				b.SetBytes(int64(bytes))
				for b.Loop() {
					if err := h.Alloc(p, bytes); err != nil {
						b.Fatal(err)
					}
					h.Close()
				}
				p.Close()
			})
		}
	}
}
