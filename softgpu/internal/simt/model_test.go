package simt

import (
	"os"
	"reflect"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// Latencies of testModel, in picoseconds. A cycle is 1000.
const (
	testCycle  = 1000
	testL1     = 40_000
	testShared = 30_000
	testFar    = 1_000_000
)

// testModel is a device whose instructions take 4 cycles.
func testModel(counters int) *Model {
	m := &Model{
		Cycle: testCycle, Guard: 8, Branch: 7, Shared: testShared, L1: testL1, Lines: 64, Warps: 64,
		Latency: make([]int64, counters), Cached: make([]bool, counters), Locked: make([]bool, counters),
	}
	for i := range m.Classes {
		m.Classes[i] = Work{Latency: 4, Issue: 1}
	}
	for i := range counters {
		m.Latency[i], m.Cached[i] = testFar, true
	}
	return m
}

func mechanisms(t *testing.T) *module {
	t.Helper()
	text, err := os.ReadFile("../../testdata/mechanisms.ptx")
	if err != nil {
		t.Fatal(err)
	}
	return load(t, newSpace(), "mechanisms.ptx", string(text))
}

// followed runs a kernel whose blocks are followed.
func followed(t *testing.T, m *module, change func(*Launch), kernel string, grid, block int, args ...any) Stats {
	t.Helper()
	l := m.launch(t, kernel, grid, block, args...)
	l.Counters, l.Multiprocessors = 1, 4
	l.Model = testModel(1)
	if change != nil {
		change(l)
	}
	return mustRun(t, l)
}

// stride returns a ring of n indices that are step apart.
func stride(n, step int) []int32 {
	next := make([]int32, n*step)
	for i := range n {
		next[i*step] = int32((i + 1) % n * step)
	}
	return next
}

// about fails unless got is want, up to the few cycles of other instructions.
func about(t *testing.T, what string, got, want uint64) {
	t.Helper()
	if got < want || got > want+want/10+100*testCycle {
		t.Errorf("%s: %d ps, want %d and little more", what, got, want)
	}
}

func TestChainIsFollowed(t *testing.T) {
	m := mechanisms(t)
	const steps = 60
	out, next := put(m.mem, make([]int32, 1024)), put(m.mem, stride(steps, 8)) // a sector each
	s := followed(t, m, nil, "follow_volatile", 1, 1, out, next, steps).Sample
	about(t, "dependent loads", s.Chain, steps*testFar)
	if s.Waits[0] != steps {
		t.Errorf("%d waits for %d loads", s.Waits[0], steps)
	}
	if s.Waited < steps*testFar*99/100 || s.Waited > s.Chain {
		t.Errorf("waited %d ps of %d", s.Waited, s.Chain)
	}
	s = followed(t, m, nil, "four", 1, 1, out, next).Sample
	about(t, "4 loads that do not need each other", s.Chain, testFar)
	s = followed(t, m, nil, "products", 1, 32, out, uint32(0), 1000).Sample
	if want := uint64(1000 * 4 * testCycle); s.Chain < want || s.Chain > want*5/4 {
		t.Errorf("1000 dependent products: %d ps, want %d and up to a quarter more for the loop", s.Chain, want)
	}
}

// The second round through a ring finds its lines, if the cache can hold them all.
func TestFollowedCache(t *testing.T) {
	m := mechanisms(t)
	const steps = 50
	out, next := put(m.mem, make([]int32, 8)), put(m.mem, stride(steps, 32)) // a line each
	for lines, want := range map[int]uint64{64: steps*testFar + steps*testL1, 40: 2 * steps * testFar, 0: 2 * steps * testFar} {
		st := followed(t, m, func(l *Launch) { l.Model.Lines, l.Model.Warps = lines, 1 }, "follow", 1, 1, out, next, 2*steps)
		about(t, "two rounds", st.Sample.Chain, want)
		load := &st.Sample.Loads[0]
		if lines == 64 && (load.Asked[1] != 2*steps || load.Moved[1] != steps || st.Traffic[0].CachedSectors != 2*steps) {
			t.Errorf("%d lines: asked for %v, moved %v", lines, load.Asked, load.Moved)
		}
		if load.Hits() != (lines == 64) {
			t.Errorf("%d lines: hits %v", lines, load.Hits())
		}
	}
	st := followed(t, m, nil, "follow_volatile", 1, 1, out, next, 2*steps)
	about(t, "volatile loads", st.Sample.Chain, 2*steps*testFar)
	if st.Sample.Loads[0].Asked != [16]uint64{} || st.Traffic[0].CachedSectors != 0 {
		t.Errorf("volatile loads use the cache: %+v", st.Sample.Loads[0])
	}
}

// Lines that the blocks beside push out of the cache count apart, unless they load the same.
func TestCrowdedCache(t *testing.T) {
	m := mechanisms(t)
	const steps = 10
	out, next := put(m.mem, make([]int32, 8)), put(m.mem, stride(steps, 32))
	for sms, alike := range map[int]bool{1: false, 2: true} {
		st := followed(t, m, func(l *Launch) { l.Multiprocessors = sms }, "follow", 64, 1, out, next, 2*steps)
		s, moved := &st.Sample, sum(st.Sample.Loads[0].Moved)
		if s.Crowded[0] != steps || s.Alike != alike {
			t.Errorf("%d multiprocessors: %d loads of a crowded cache, want %d; alike %v", sms, s.Crowded[0], steps, s.Alike)
		}
		if alike && moved != steps || !alike && moved < 64*steps {
			t.Errorf("%d multiprocessors: %d lines fetched for %d", sms, moved, steps)
		}
	}
}

// A branch waits for its predicate, also through operations on predicates.
func TestFollowedPredicates(t *testing.T) {
	f := &frame{ready: make([]int64, 4), readyPred: []int64{0, 100 << levelBits, 7 << levelBits}}
	m := testModel(1)
	for name, c := range map[string]struct {
		in   inst
		want int64
	}{
		"guard":     {inst{guard: 1}, 100},
		"branch":    {inst{guard: 1, kind: kindBranch}, 100 + 8*testCycle},
		"selection": {inst{guard: -1, p: 1}, 100},
		"logic":     {inst{guard: -1, aux: logic{1, 2, 0}}, 7},
	} {
		if got := f.needs(&c.in, m) >> levelBits; got != c.want {
			t.Errorf("%s: ready at %d, want %d", name, got, c.want)
		}
	}
}

// A line that several warps load is fetched in one request, by the warp that comes first on
// hardware.
func TestNeighboursShareLines(t *testing.T) {
	m := mechanisms(t)
	const n = 1 << 10
	out, in := put(m.mem, make([]float32, n)), put(m.mem, make([]float32, n))
	st := followed(t, m, func(l *Launch) { l.Multiprocessors, l.Model.Lines = 1, 1024 }, "neighbours", n/256, 256, out, in, n, 3)
	if got := st.Sample.Loads[0].Moved; got[15] < n/32-3 || sum(got) > n/32+3 {
		t.Errorf("moved %v, want %d lines, whole but for those that two blocks load", got, n/32)
	}
}

func sum(v [16]uint64) (n uint64) {
	for _, x := range v {
		n += x
	}
	return n
}

// Warps that wait at a barrier go on when the last one has come.
func TestFollowedBarrier(t *testing.T) {
	m := mechanisms(t)
	const steps = 20
	out, next := put(m.mem, make([]int32, 128)), put(m.mem, stride(steps, 8))
	l := func(l *Launch) { l.Multiprocessors = 1 }
	s := followed(t, m, l, "wait_for_first", 1, 128, out, next, steps).Sample
	about(t, "a block with one slow warp", s.Chain, steps*testFar)
	x := newTestBlock()
	x.warps[0].tr.clock, x.warps[1].tr.clock = 5, 9
	x.trace, x.live, x.bars[0].arrived = new(trace), 64, 64
	x.checkBarrier(0)
	if a, b := x.warps[0].tr.clock, x.warps[1].tr.clock; a != 9 || b != 9 {
		t.Errorf("after a barrier the clocks are %d and %d", a, b)
	}
}

// newTestBlock returns a block whose two warps wait at barrier 0.
func newTestBlock() *block {
	b := &block{started: 2}
	for range 2 {
		b.warps = append(b.warps, &warp{others: []group{{wait: waitBarrier}}})
	}
	return b
}

// The sample does not depend on the number of workers.
func TestSampleOnAnyNumberOfWorkers(t *testing.T) {
	m := mechanisms(t)
	const n = 1 << 14
	out, in := put(m.mem, make([]float32, n)), put(m.mem, make([]float32, n))
	each := make([]int32, n)
	for i := range each {
		each[i] = int32(i * 8 % n)
	}
	index := put(m.mem, each)
	var want []Stats
	for _, workers := range []int{1, 2, 8} {
		with := func(l *Launch) { l.Workers, l.Model.Locked[0] = workers, true }
		got := []Stats{
			followed(t, m, with, "neighbours", n/64, 64, out, in, n, 9),
			followed(t, m, with, "table", n/64, 64, out, in, 500, 2),
			followed(t, m, with, "pick", n/64, 64, out, in, index),
			followed(t, m, with, "count", n/64, 64, out, index),
		}
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d workers: got %+v\nwith one %+v", workers, got, want)
		}
	}
	if s := want[1].Sample; s.Blocks != 64+2 || !s.Alike || s.Loads[0].Common != s.Loads[0].Lines {
		t.Errorf("blocks that read one table: %+v", s)
	}
	if s := want[0].Sample; s.Alike || s.Loads[0].Lines < 3 || s.Loads[0].Common > 1 {
		t.Errorf("blocks that read parts of their own: %+v", s)
	}
	if want[3].Locked == 0 || want[3].Traffic[0].AtomicSectors != n {
		t.Errorf("additions: %+v", want[3])
	}
}

// A kernel that is followed computes the same.
func TestFollowedComputesTheSame(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 3000
		var want []byte
		for _, model := range []*Model{nil, testModel(1)} {
			a, out := put(m.mem, make([]float32, n)), put(m.mem, make([]float32, n))
			l := m.launch(t, "add_one_each", blocks(n, 64), 64, a, a, out, n)
			l.Model = model
			mustRun(t, l)
			if want == nil {
				want = out.Data
			}
			if !reflect.DeepEqual(out.Data, want) {
				t.Error("another result")
			}
		}
	})
}

// A warp that polls takes no time for loads that find nothing new.
func TestPollsTakeNoTime(t *testing.T) {
	m := mechanisms(t)
	out, flag := put(m.mem, make([]int32, 2)), put(m.mem, make([]int32, 2))
	flag.Data[0] = 1
	once := followed(t, m, nil, "poll", 1, 1, out, flag).Sample
	about(t, "a poll", once.Chain, testFar)
	w := &warp{active: 1, f: &frame{regs: make([]lanes, 3), tags: make([]tag, 3)}}
	in := &inst{a: 1, mem: &access{regs: []int32{2}, strong: true}}
	if w.idlePoll(in) && w.idlePoll(in) != true {
		t.Error("the same value at the same address is news")
	}
	w.f.setUniform(2, 7)
	if w.idlePoll(in) || !w.idlePoll(in) {
		t.Error("another value is no news, or is news twice")
	}
}

func TestClasses(t *testing.T) {
	for text, want := range map[string]Class{
		"add.s32 %r1, %r2, %r3": Plain, "fma.rn.f32 %f1, %f2, %f3, %f4": Plain, "add.s64 %rd1, %rd2, %rd3": Wide,
		"mul.lo.s64 %rd1, %rd2, %rd3": WideProduct, "setp.lt.s32 %p1, %r1, %r2": Compare,
		"sqrt.approx.f32 %f1, %f2": Root, "sqrt.rn.f32 %f1, %f2": ExactRoot, "rcp.approx.ftz.f32 %f1, %f2": Special,
		"div.u32 %r1, %r2, %r3": Divide, "rem.s64 %rd1, %rd2, %rd3": DivideWide, "div.rn.f32 %f1, %f2, %f3": ExactQuotient,
		"div.full.f32 %f1, %f2, %f3": Quotient, "div.rn.f64 %fd1, %fd2, %fd3": DoubleQuotient, "sqrt.rn.f64 %fd1, %fd2": DoubleRoot, "fma.rn.f64 %fd1, %fd2, %fd3, %fd4": Double,
		"cvt.rn.f32.s32 %f1, %r1": Convert, "cvt.u64.u32 %rd1, %r1": Plain, "cvt.rn.f64.s32 %fd1, %r1": ConvertWide,
		"ld.global.f64 %fd1, [%rd1]": Plain, "bar.sync 0": Barrier, "ex2.approx.ftz.f32 %f1, %f2": Special,
	} {
		m, err := ptx.Parse("class.ptx", ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n.reg .f64 %fd<9>;\n.reg .pred %p<9>;\n"+text+";\nret;\n}\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := classOf(&m.Funcs[0].Body[0]); got != want {
			t.Errorf("%s: class %d, want %d", text, got, want)
		}
	}
}
