package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// Finding is what the check of a launch found, the first time for a pair of instructions.
type Finding struct {
	Sort          kernelrace.Sort
	First, Second FindingSide // First is absent for an uninitialized read, and if no free of unallocated memory is known
	Shared        bool        // the address is in shared memory
	Addr          uint64      // in shared memory, an offset
	Bytes         int
	Missing       string // what would order the accesses
	Count         int    // how often
}

// FindingSide is one of two accesses.
type FindingSide struct {
	Block, Thread cu.Dim3
	Line          int    // of the PTX
	Source        string // "shift.cu:20", or "" if unknown
	Op            string // the opcode with its modifiers
	Kind          kernelrace.Kind
	Value         uint64 // what was read or written
	Known         bool   // whether Value is known
}

// GaveUp is what the check of a launch did not follow, because it would have needed too much
// memory.
type GaveUp struct {
	Intervals int // releases of threads that were not told apart
	Words     int // accesses of words that were not kept
}

// checker finds races in a launch. One worker runs such a launch.
type checker struct {
	*kernelrace.Detector
	x       *execution
	written func(page uint64) *kernelrace.Written // nil if nothing is known

	rules [][]rule // by function and position in its code
	insts []*inst  // by the number that the detector knows

	// The access that is being checked.
	w     *warp
	in    *inst
	lanes uint32
	addrs lanes
	found [mostParts + 1]regular // in the lanes

	// What the cp.async that is being checked reads.
	source kernelrace.Access
	from   lanes
	reads  [warpSize]int

	heapBase, heapBytes uint64 // of malloc in kernels
	frees               []freeCall
}

// rule says what the checker does for an instruction.
type rule struct {
	do     ruleKind
	access kernelrace.Access
	scope  kernelrace.Scope
	limit  copyLimit
}

type ruleKind uint8

const (
	ruleUnknown ruleKind = iota
	ruleNothing
	ruleAccess
	ruleAtomic // checked when its result is known
	ruleObject // of mbarrier, the same
	ruleCopySource
	ruleCopy
	ruleCopyGroup
	ruleFence
)

func newChecker(x *execution) *checker {
	c := &checker{Detector: kernelrace.New(x.threads), x: x, written: x.l.Written, rules: make([][]rule, len(x.fn.program.list))}
	c.Values = c
	if h := x.l.Heap; h != nil {
		c.heapBase, c.heapBytes = h.Range()
	}
	if b := x.l.Between; b != nil {
		c.OnHost, c.Signals = b.OnHost, b.Signals
	}
	return c
}

// rule returns the rule of the instruction at pc.
func (c *checker) rule(fn *function, pc int) *rule {
	if c.rules[fn.id] == nil {
		c.rules[fn.id] = make([]rule, len(fn.code))
	}
	r := &c.rules[fn.id][pc]
	if r.do == ruleUnknown {
		*r = c.newRule(fn, &fn.code[pc])
	}
	return r
}

// number returns the number of an instruction.
func (c *checker) number(in *inst) int {
	c.insts = append(c.insts, in)
	return len(c.insts) - 1
}

func (c *checker) newRule(fn *function, in *inst) rule {
	r := rule{do: ruleNothing, scope: scopeOf(in.src), limit: -1}
	has := func(mod string) bool { return slices.Contains(in.src.Mods, mod) }
	switch {
	case in.kind == kindBarrier, in.call != nil:
		r.access.Inst = c.number(in)
		return r
	case in.mem == nil:
		c.asyncRule(in, &r)
		if in.src.Op == "membar" || in.src.Op == "fence" {
			r.do = ruleFence
		}
		return r
	case in.mem.space == ptx.LocalSpace || in.mem.space == ptx.ParamSpace || in.mem.space == ptx.ConstSpace:
		return r
	}
	r.do = ruleAccess
	a := &r.access
	a.Inst, a.Bytes = c.number(in), int(in.mem.bytes)
	if in.mem.write {
		a.Kind = kernelrace.Write
	}
	switch {
	case in.mem.atomic:
		r.do = ruleAtomic
		a.Kind, a.Update = (a.Kind | kernelrace.Strong | kernelrace.Atomic).With(r.scope), true
	case c.asyncRule(in, &r):
		return r
	case in.mem.strong:
		a.Kind = (a.Kind | kernelrace.Strong).With(r.scope)
	}
	a.NonCoherent = has("nc")
	a.Blind = a.Kind&kernelrace.Strong != 0 && !fn.looksAt(in.src)
	a.Acquire = has("acquire") || has("acq_rel")
	a.Release = has("release") || has("acq_rel")
	return r
}

// scopeOf returns the scope of a strong access or a fence.
func scopeOf(in *ptx.Instr) kernelrace.Scope {
	for _, m := range in.Mods {
		switch m {
		case "cta", "cluster":
			return kernelrace.InBlock
		case "gpu", "gl":
			return kernelrace.Device
		case "sys", "volatile", "mmio":
			return kernelrace.System
		}
	}
	return kernelrace.Device
}

// runWatched does the work of run for a launch with a checker, with mapped memory that it
// shares loosely with the host, or whose order follows a seed. It tells the checker of the
// block what lanes do.
func (w *warp) runWatched() {
	c, h, s := w.k.x.checker, w.k.mapped, w.k.shuffle
	for w.state == warpReady {
		pc := w.pc
		if pc >= w.limit {
			w.reconverge()
			pc = w.pc
		}
		if end := w.stretch(pc); end > pc {
			w.compute(pc, end)
			continue
		}
		in := &w.f.fn.code[pc]
		w.pc = pc + 1
		w.k.instructions += uint64(in.cost)
		if w.tr.block != nil {
			w.issue(in)
		}
		taken := w.active
		if in.guard >= 0 {
			taken &= w.f.preds[in.guard] ^ in.guardNot
			if taken == 0 {
				continue
			}
		}
		switch in.kind {
		case kindExec:
			w.execWatched(c, h, in, pc, taken)
			if w.fault != nil {
				return
			}
			if in.mem != nil && w.tr.block != nil {
				w.arrive(in)
			}
			if s != nil && s.ends(in) {
				return
			}
		case kindBranch:
			w.branch(in, taken)
			if w.budget <= 0 {
				return
			}
		default:
			if h != nil {
				h.control(w, in)
			}
			w.control(in, taken)
			if w.fault != nil || w.budget <= 0 || s != nil && s.ends(in) {
				return
			}
		}
	}
}

// execWatched executes an instruction for some of the active lanes, or for all.
func (w *warp) execWatched(c *checker, h *mappedView, in *inst, pc int, taken uint32) {
	var r *rule
	if c != nil {
		r = c.rule(w.f.fn, pc)
		c.before(w, in, r, taken)
	}
	active, full, dense := w.active, w.full, w.dense
	if taken != active {
		w.active, w.full, w.dense = taken, false, false
	}
	if h != nil && (in.mem != nil || in.fence != fenceNone) {
		execMapped(w, in)
	} else {
		in.exec(w, in)
	}
	if taken != active {
		w.active, w.full, w.dense = active, full, dense
	}
	if c != nil && w.fault == nil {
		c.after(w, in, r)
	}
}

// before checks an instruction that will run for some lanes. Of an atomic operation it
// only keeps the addresses.
func (c *checker) before(w *warp, in *inst, r *rule, lanes uint32) {
	switch r.do {
	case ruleNothing:
		return
	case ruleFence:
		for m := lanes; m != 0; m &= m - 1 {
			w.b.check.Fence(w.index*warpSize+trailing(m), r.scope)
		}
		return
	case ruleCopyGroup:
		c.copyGroups(w, in, lanes)
		return
	}
	if in.src.Op == "ldmatrix" || in.src.Op == "stmatrix" {
		lanes &= 1<<(8*len(in.aux.(*matrixMove).regs)) - 1
	}
	c.w, c.in, c.lanes = w, in, lanes
	c.addresses()
	switch r.do {
	case ruleCopySource:
		c.copySource(r)
	case ruleCopy:
		c.copies(r)
	case ruleAccess:
		c.accesses(&r.access)
	}
}

// accesses tells the detector of a load or store.
func (c *checker) accesses(a *kernelrace.Access) {
	lanes := c.lanes
	if a.Kind&^kernelrace.Write == 0 {
		lanes = c.strips(a)
	}
	c.lanewise(a, lanes)
}

// lanewise tells the detector of the accesses of some lanes, one by one. Of neighbours that read one word
// the first and the last are enough if they do not differ in what they have seen: a write that races with
// one between them mostly races with one of the two.
func (c *checker) lanewise(a *kernelrace.Access, lanes uint32) {
	first, last := -1, -1
	reads := a.Kind == 0
	for m := lanes; m != 0; m &= m - 1 {
		i := trailing(m)
		if reads && first >= 0 && c.addrs[i] == c.addrs[first] && c.alike(i, first) {
			last = i
			continue
		}
		if last >= 0 {
			c.access(a, last)
		}
		first, last = i, -1
		c.access(a, i)
	}
	if last >= 0 {
		c.access(a, last)
	}
}

func (c *checker) alike(i, j int) bool {
	at := c.w.index * warpSize
	return c.w.b.check.Alike(at+i, at+j)
}

// after checks an atomic operation that has run.
func (c *checker) after(w *warp, in *inst, r *rule) {
	switch r.do {
	case ruleObject:
		c.objects(w, in, r)
		return
	case ruleAtomic:
	default:
		return
	}
	var compare *lanes
	if op, ok := in.aux.(*atomicOp); ok && op.name == "cas" {
		compare = w.f.expand(in.b)
	}
	for m := c.lanes; m != 0; m &= m - 1 {
		i := trailing(m)
		a := r.access
		shift := 64 - 8*in.mem.size
		if compare != nil && w.k.tmp[i]<<shift != compare[i]<<shift {
			a.Kind &^= kernelrace.Write
			a.Update, a.Release = false, false
		}
		c.access(&a, i)
	}
}

// access tells the detector of the access of a lane.
func (c *checker) access(a *kernelrace.Access, lane int) {
	addr := c.addrs[lane]
	a.Shared, a.Addr = false, addr
	if addr >= windows {
		if a.Addr = addr - sharedWindow; a.Addr >= 1<<windowBits {
			return // local memory, or the arguments
		}
		a.Shared = true
	} else if c.outside(addr, a.Bytes) {
		c.reportOutside(lane, a)
		return
	}
	c.w.b.check.Access(c.w.index*warpSize+lane, a)
}

// addresses finds the addresses of the lanes.
func (c *checker) addresses() {
	w, m := c.w, c.in.mem
	cut := ^uint64(0)
	if m.addr32 {
		cut = 1<<32 - 1
	}
	off := w.offset(m)
	base := m.base()
	for rest := c.lanes; rest != 0; rest &= rest - 1 {
		i := trailing(rest)
		c.addrs[i] = w.f.lane(c.in.a, i)&cut + off + base
	}
}

// full returns an address with the window of its space.
func full(shared bool, addr uint64) uint64 {
	if shared {
		return addr + sharedWindow
	}
	return addr
}

// Stores returns what a lane of the current instruction stores at an address.
func (c *checker) Stores(t int, shared bool, addr uint64, n int) (v uint64, ok bool) {
	lane, m := t-c.w.index*warpSize, c.in.mem
	if lane < 0 || lane >= warpSize || c.lanes>>lane&1 == 0 || !m.write || m.atomic || len(m.regs) == 0 {
		return 0, false
	}
	for i := range n {
		off := full(shared, addr) + uint64(i) - c.addrs[lane]
		if off >= m.bytes || off/m.size >= uint64(len(m.regs)) {
			return 0, false
		}
		b := c.w.f.lane(m.regs[off/m.size], lane) >> (8 * (off % m.size)) & 0xff
		v |= b << (8 * i)
	}
	return v, true
}

// Memory returns what is in memory.
func (c *checker) Memory(shared bool, addr uint64, n int) (v uint64, ok bool) {
	if c.in.mem == nil {
		return 0, false
	}
	addr = full(shared, addr)
	ref := c.w.segment(c.in.mem, addr)
	if ref == nil {
		return 0, false
	}
	var b [8]byte
	h := c.w.k.mapped
	atomics := h != nil && h.Atomics.any()
	ok = ref.peek(addr, b[:n]) == n
	if h != nil && !shared {
		return h.visible(c.w.b, ref.at(addr), uint64(n), loadBytes(b[:n]), atomics), ok
	}
	return loadBytes(b[:n]), ok
}

// Written returns which bytes of a page have been written.
func (c *checker) Written(page uint64) *kernelrace.Written {
	if c.written == nil {
		return nil
	}
	return c.written(page)
}

// checkSync orders the lanes of bar.warp.sync. Other instructions with members order no
// memory, but may access it.
func (w *warp) checkSync(in *inst) {
	c := w.k.x.checker
	if isWarpBarrier(in) {
		w.eachMembers(in, func(_, members uint32) { w.b.check.WarpSync(w.index, members) })
		return
	}
	if in.mem != nil {
		c.before(w, in, c.rule(w.f.fn, w.pc-1), w.active)
	}
}

// findings returns what was found, with places.
func (c *checker) findings() (out []Finding) {
	for _, f := range c.Findings() {
		out = append(out, Finding{
			Sort: f.Sort, First: c.side(&f.First), Second: c.side(&f.Second),
			Shared: f.Shared, Addr: f.Addr, Bytes: f.Bytes, Missing: f.Missing, Count: f.Count,
		})
	}
	return out
}

func (c *checker) side(s *kernelrace.Side) FindingSide {
	out := c.x.side(c.insts[min(s.Inst, len(c.insts)-1)], uint64(s.Block), uint32(s.Thread), s.Kind)
	out.Value, out.Known = s.Value, s.Known
	return out
}

// side describes an access of a thread.
func (x *execution) side(in *inst, block uint64, thread uint32, kind kernelrace.Kind) FindingSide {
	return describe(x.l.Kernel.program, x.l.Grid, x.l.Block, in, block, thread, kind)
}

// describe returns the access of a thread of a launch.
func describe(p *Program, grid, shape cu.Dim3, in *inst, block uint64, thread uint32, kind kernelrace.Kind) FindingSide {
	gx, gy := uint64(grid.X), uint64(grid.Y)
	return FindingSide{
		Block:  cu.Dim3{X: uint32(block % gx), Y: uint32(block / gx % gy), Z: uint32(block / gx / gy)},
		Thread: threadAt(thread, shape),
		Line:   in.src.Pos.Line, Source: p.source(in.src.Loc), Op: opText(in.src),
		Kind: kind,
	}
}
