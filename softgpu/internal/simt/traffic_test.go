package simt

import (
	"slices"
	"testing"
)

// trafficSource has kernels that read p[i*stride+first], write vectors, and write
// through an index.
const trafficSource = `.version 8.0
.target sm_75
.address_size 64
.visible .entry read(.param .u64 p, .param .u32 stride, .param .u32 first) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [stride];
	ld.param.u32 %r2, [first];
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r3, %r1, %r2;
	mul.wide.s32 %rd2, %r4, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.f32 %f1, [%rd3];
	ret;
}
.visible .entry write4(.param .u64 p) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r3, %tid.x;
	mul.wide.s32 %rd2, %r3, 16;
	add.s64 %rd3, %rd1, %rd2;
	st.global.v4.u32 [%rd3], {%r3, %r3, %r3, %r3};
	ret;
}
.visible .entry through(.param .u64 p, .param .u64 index) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [index];
	mov.u32 %r3, %tid.x;
	mul.wide.s32 %rd3, %r3, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.u32 %r4, [%rd4];
	mul.wide.s32 %rd5, %r4, 4;
	add.s64 %rd6, %rd1, %rd5;
	st.global.u32 [%rd6], %r3;
	ret;
}
`

func TestTraffic(t *testing.T) {
	for _, lanewise := range []bool{false, true} {
		lanewiseForTests.Store(lanewise)
		defer lanewiseForTests.Store(false)
		m := load(t, newSpace(), "traffic.ptx", trafficSource)
		buf := put(m.mem, make([]int32, 1<<16))
		for _, c := range []struct {
			name          string
			stride, first int
			threads       int
			want          Traffic
		}{
			{"coalesced", 1, 0, 32, Traffic{ReadSectors: 4, Reads: [4]uint64{3: 1}, ReadBytes: 128}},
			{"shifted by one", 1, 1, 32, Traffic{ReadSectors: 5, Reads: [4]uint64{0: 1, 3: 1}, ReadBytes: 128}},
			{"shifted by a sector", 1, 8, 32, Traffic{ReadSectors: 4, Reads: [4]uint64{0: 1, 2: 1}, ReadBytes: 128}},
			{"reversed", -1, 31, 32, Traffic{ReadSectors: 4, Reads: [4]uint64{3: 1}, ReadBytes: 128}},
			{"stride of 2", 2, 0, 32, Traffic{ReadSectors: 8, Reads: [4]uint64{3: 2}, ReadBytes: 128}},
			{"stride of 16", 16, 0, 32, Traffic{ReadSectors: 32, Reads: [4]uint64{0: 32}, ReadBytes: 128}},
			{"stride of 32", 32, 5, 32, Traffic{ReadSectors: 32, Reads: [4]uint64{0: 32}, ReadBytes: 128}},
			{"one address", 0, 7, 32, Traffic{ReadSectors: 1, Reads: [4]uint64{0: 1}, ReadBytes: 128}},
			{"half a warp", 1, 0, 16, Traffic{ReadSectors: 2, Reads: [4]uint64{1: 1}, ReadBytes: 64}},
			{"two warps", 1, 0, 64, Traffic{ReadSectors: 8, Reads: [4]uint64{3: 2}, ReadBytes: 256}},
		} {
			s := mustRun(t, m.launch(t, "read", 1, c.threads, buf, c.stride, c.first))
			c.want.CachedSectors = c.want.ReadSectors
			if s.Traffic[0] != c.want {
				t.Errorf("%s, lanewise %v: got %+v, want %+v", c.name, lanewise, s.Traffic[0], c.want)
			}
		}
		s := mustRun(t, m.launch(t, "write4", 1, 32, buf))
		if want := (Traffic{WriteSectors: 16, Writes: [4]uint64{3: 4}, WriteBytes: 512}); s.Traffic[0] != want {
			t.Errorf("vectors, lanewise %v: got %+v, want %+v", lanewise, s.Traffic[0], want)
		}
	}
}

func TestScatteredTraffic(t *testing.T) {
	m := load(t, newSpace(), "traffic.ptx", trafficSource)
	for range 200 {
		buf := put(m.mem, make([]int32, 1<<12))
		buf.Counter = 1
		index := make([]int32, 32)
		spread := 1 << rng.UintN(13)
		sectors := map[uint64]bool{}
		for i := range index {
			index[i] = int32(rng.IntN(spread))
			sectors[(buf.Base+4*uint64(index[i]))>>5] = true
		}
		want := Traffic{WriteSectors: uint64(len(sectors)), WriteBytes: 128}
		for s := range sectors {
			if s&3 != 0 && sectors[s-1] {
				continue // not the first sector of its run
			}
			n := 1
			for s&3 < 3 && sectors[s+1] {
				s++
				n++
			}
			want.Writes[n-1]++
		}
		l := m.launch(t, "through", 1, 32, buf, put(m.mem, index))
		l.Counters = 2
		if got := mustRun(t, l).Traffic[1]; got != want {
			t.Fatalf("indices %v: got %+v, want %+v", index, got, want)
		}
		got := valuesOf[int32](buf.Data)
		for i, k := range index {
			last := i
			for j := range index {
				if index[j] == k {
					last = j
				}
			}
			if got[k] != int32(last) {
				t.Fatalf("element %d: got %d, want %d", k, got[k], last)
			}
		}
	}
}

func TestPages(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n, shift = 5000, 12
		pages := func() *Pages { return &Pages{Shift: shift, Read: make([]uint64, 1), Written: make([]uint64, 1)} }
		a, out := put(m.mem, make([]float32, n)), put(m.mem, make([]float32, n))
		a.Pages, out.Pages = pages(), pages()
		mustRun(t, m.launch(t, "add_one_each", blocks(3000, 64), 64, a, a, out, 3000))
		touched := uint64(1)<<((3000*4+4095)/4096) - 1
		if a.Pages.Read[0] != touched || a.Pages.Written[0] != 0 {
			t.Errorf("source: got read %b, written %b, want read %b", a.Pages.Read[0], a.Pages.Written[0], touched)
		}
		if out.Pages.Written[0] != touched {
			t.Errorf("destination: got written %b, want %b", out.Pages.Written[0], touched)
		}
	})
}

// TestPageOrder checks that Pages.Order does not depend on the number of cores, and
// that earlier waves, then earlier instructions, come first.
func TestPageOrder(t *testing.T) {
	m := loadFile(t, newSpace(), "corpus_nvcc.ptx")
	const n, shift = 1 << 16, 12
	var want []uint64
	for workers := 1; workers <= 4; workers++ {
		a, out := put(m.mem, make([]float32, n)), put(m.mem, make([]float32, n))
		a.Pages, out.Pages = NewPages(4*n, shift, true), NewPages(4*n, shift, true)
		l := m.launch(t, "add_one_each", n/256, 256, a, a, out, n)
		l.Workers, l.Resident = workers, 64
		mustRun(t, l)
		order := append(append([]uint64(nil), a.Pages.Order...), out.Pages.Order...)
		if workers == 1 {
			want = order
		}
		if !slices.Equal(order, want) {
			t.Errorf("%d workers: got %v, want %v", workers, order, want)
		}
	}
	// There are four blocks per page and 64 blocks per wave, so 16 pages per wave.
	for i := range 64 {
		if want[i]>>(orderStepBits+orderBlockBits) != uint64(i/16) {
			t.Errorf("page %d: %#x, want it in wave %d", i, want[i], i/16)
		}
		if want[64+i] < want[i] {
			t.Errorf("page %d is written at %#x, before it is read at %#x", i, want[64+i], want[i])
		}
	}
	pages := 0
	(&Pages{Shift: shift, Read: []uint64{5}, Written: []uint64{6}, Order: []uint64{7, 8, 9}}).Each(func(page uint64, written bool, first uint64) {
		if first != 7+page || written != (page > 0) {
			t.Errorf("page %d: written %v, first %d", page, written, first)
		}
		pages++
	})
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
}
