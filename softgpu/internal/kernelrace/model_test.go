package kernelrace

import (
	"math/rand/v2"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// past is an access of a model that keeps all accesses, and orders them by barriers.
type past struct {
	Access
	block, thread int
	phase, warp   int // barriers of the block and of the warp before it
}

// before reports whether p comes before a later access.
func (p *past) before(q *past) bool {
	if p.block != q.block {
		return false
	}
	near := p.thread/warpSize == q.thread/warpSize
	return p.thread == q.thread || p.phase < q.phase || near && p.warp < q.warp
}

// races reports whether two accesses race.
func (p *past) races(q *past) bool {
	if p.before(q) || (p.Kind|q.Kind)&Write == 0 || !p.overlaps(q) {
		return false
	}
	return p.Kind&q.Kind&Strong == 0 || p.block != q.block && min(p.Kind.scope(), q.Kind.scope()) < Device
}

// overlaps reports whether two accesses touch a byte.
func (p *past) overlaps(q *past) bool {
	near := p.Shared == q.Shared && (p.block == q.block || !p.Shared)
	return near && p.Addr < q.Addr+uint64(q.Bytes) && q.Addr < p.Addr+uint64(p.Bytes)
}

// repeats reports whether q is p again, which is not checked again.
func (p *past) repeats(q *past) bool {
	return p.block == q.block && p.thread == q.thread && p.phase == q.phase && p.warp == q.warp &&
		p.Inst == q.Inst && p.Kind == q.Kind && p.overlaps(q)
}

const modelBlocks, modelWarps, modelLines = 2, 3, 4

// model runs a program on a detector, and keeps all accesses.
type model struct {
	*testing.T
	d      *Detector
	blocks [modelBlocks]*Block
	phase  [modelBlocks]int
	warps  [modelBlocks][modelWarps]int
	done   []*past
	few    bool // no further accesses of global memory are kept, so that races are missed
	races  int
	strips int // accesses that were checked as strips
}

// TestModel compares the detector with a model that keeps all accesses: it must report each
// access that races with an earlier one, and no other. Where it may not keep further accesses
// of global memory, it may miss some.
func TestModel(t *testing.T) {
	races, strips, programs := 0, 0, uint64(sample.Count(2000, 20000))
	for seed := range programs {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &model{T: t, d: New(modelWarps * warpSize), few: seed%4 < 2}
		m.d.Values = noValues{}
		for i := range m.blocks {
			m.blocks[i] = m.d.Block(uint64(i), modelLines*lineBytes)
		}
		for range 40 {
			m.step(r, seed%2 == 0)
		}
		strips += m.strips
		if races += m.races; t.Failed() {
			t.Fatalf("program %d", seed)
		}
	}
	if t.Logf("%d accesses race, %d are of strips", races, strips); strips == 0 {
		t.Error("no strip was taken as one")
	}
}

// step runs a barrier, an access, one by four neighbours, or one by many at regular distances.
func (m *model) step(r *rand.Rand, reads bool) {
	p := randomAccess(r)
	if p.Inst == 2 || reads && r.IntN(8) > 0 {
		p.Kind = 0 // many programs seldom write
	}
	b, warp := m.blocks[p.block], p.thread/warpSize
	switch r.IntN(8) {
	case 6, 7:
		m.strip(r, p)
	case 0:
		meet(b)
		m.phase[p.block]++
	case 1:
		b.WarpSync(warp, ^uint32(0))
		m.warps[p.block][warp]++
	case 2:
		for range min(4, (32-int(p.Addr%lineBytes))/p.Bytes) {
			q := *p
			m.access(&q)
			p.thread, p.Addr = min(p.thread+1, modelWarps*warpSize-1), p.Addr+uint64(p.Bytes)
		}
	default:
		m.access(p)
	}
}

// strip lets lanes of a warp access memory at regular distances. What the detector takes as one must
// not race.
func (m *model) strip(r *rand.Rand, p *past) {
	size, step, lane := 1<<r.IntN(5), 1+r.IntN(2), r.IntN(warpSize)
	count, stride := 1+r.IntN((warpSize-1-lane)/step+1), size*(1+r.IntN(3))
	p.thread = p.thread/warpSize*warpSize + lane
	p.Shared, p.Kind, p.Bytes = false, p.Kind&Write, size
	p.Addr = uint64(r.IntN(modelLines)*lineBytes + r.IntN(64)/size*size)
	done := m.blocks[p.block].Strip(p.thread, step, count, uint64(stride), &p.Access)
	for i := range count {
		q := *p
		q.thread, q.Addr = p.thread+i*step, p.Addr+uint64(i*stride)
		if i >= done {
			m.access(&q)
		} else if want, _ := m.expect(&q); want {
			m.Errorf("strip of %d: access %d races: %+v", count, i, q)
		}
	}
	m.strips += done
}

// expect keeps an access, and returns whether it races, and whether it is one again.
func (m *model) expect(p *past) (want, again bool) {
	p.phase, p.warp = m.phase[p.block], m.warps[p.block][p.thread/warpSize]
	for _, q := range m.done {
		want, again = want || q.races(p), again || q.repeats(p)
	}
	m.done = append(m.done, p)
	return want, again
}

// access lets the detector and the model check an access.
func (m *model) access(p *past) {
	want, again := m.expect(p)
	before := raceCount(m.d)
	m.blocks[p.block].Access(p.thread, &p.Access)
	if m.few {
		m.d.spare = 0
	}
	if got := raceCount(m.d) > before; got != want && !again && (got || p.Shared || !m.few) {
		m.Errorf("access %d: race %v, want %v: %+v", len(m.done), got, want, *p)
	}
	if want {
		m.races++
	}
}

// randomAccess returns an access to 32 bytes of one of some lines by one of few threads.
func randomAccess(r *rand.Rand) *past {
	kinds := []Kind{0, 0, 0, Write, Write, Strong.With(InBlock), (Write | Strong).With(Device), (Write | Strong | Atomic).With(Device)}
	p := &past{block: r.IntN(modelBlocks), thread: r.IntN(modelWarps)*warpSize + r.IntN(4)}
	if r.IntN(4) == 0 {
		p.thread += warpSize - 4 // the lanes beside those of the next warp
	}
	n := 1 << r.IntN(5)
	p.Access = Access{
		Shared: r.IntN(3) == 0, Addr: uint64(r.IntN(modelLines)*lineBytes + r.IntN(32)/n*n), Bytes: n,
		Kind: kinds[r.IntN(len(kinds))], Inst: 1 + r.IntN(3), Blind: true, // the model knows no order by observation
	}
	if n == 16 && r.IntN(4) == 0 {
		p.Bytes = 12 // a copy that a limit cuts
	}
	return p
}

// raceCount returns how often a race was found.
func raceCount(d *Detector) (n int) {
	for _, f := range d.Findings() {
		if f.Sort == Race {
			n += f.Count
		}
	}
	return n
}
