package simt

import (
	"math/bits"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

// launchSpecials are special registers with one value for the whole launch.
var launchSpecials = map[string]func(x *execution) uint64{
	"%ntid.x":              func(x *execution) uint64 { return uint64(x.l.Block.X) },
	"%ntid.y":              func(x *execution) uint64 { return uint64(x.l.Block.Y) },
	"%ntid.z":              func(x *execution) uint64 { return uint64(x.l.Block.Z) },
	"%nctaid.x":            func(x *execution) uint64 { return uint64(x.l.Grid.X) },
	"%nctaid.y":            func(x *execution) uint64 { return uint64(x.l.Grid.Y) },
	"%nctaid.z":            func(x *execution) uint64 { return uint64(x.l.Grid.Z) },
	"%nclusterid.x":        func(x *execution) uint64 { return uint64(x.l.Grid.X / x.cluster().X) },
	"%nclusterid.y":        func(x *execution) uint64 { return uint64(x.l.Grid.Y / x.cluster().Y) },
	"%nclusterid.z":        func(x *execution) uint64 { return uint64(x.l.Grid.Z / x.cluster().Z) },
	"%cluster_nctaid.x":    func(x *execution) uint64 { return uint64(x.cluster().X) },
	"%cluster_nctaid.y":    func(x *execution) uint64 { return uint64(x.cluster().Y) },
	"%cluster_nctaid.z":    func(x *execution) uint64 { return uint64(x.cluster().Z) },
	"%cluster_nctarank":    func(x *execution) uint64 { return uint64(x.clusterSize()) },
	"%is_explicit_cluster": func(x *execution) uint64 { return min(x.l.Cluster.Count(), 1) },
	"%nwarpid":             func(*execution) uint64 { return 64 },
	"%nsmid":               func(x *execution) uint64 { return uint64(max(1, x.l.Multiprocessors)) },
	"%gridid":              func(*execution) uint64 { return 1 },
	"%dynamic_smem_size":   func(x *execution) uint64 { return uint64(x.l.SharedBytes) },
	"%total_smem_size":     func(x *execution) uint64 { return uint64(x.sharedBytes) },
	"%aggr_smem_size":      func(x *execution) uint64 { return uint64(x.sharedBytes) },
	"%envreg1":             func(x *execution) uint64 { return x.l.Workspace >> 32 },
	"%envreg2":             func(x *execution) uint64 { return x.l.Workspace & 0xffffffff },
}

// warpSpecials are special registers with one value for a warp, or one value per
// lane, as long as the warp lives.
var warpSpecials = map[string]func(w *warp, r *lanes, t *tag){
	"%laneid": func(_ *warp, r *lanes, t *tag) { setAffine(r, t, 0, 1) },
	"%warpid": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.index), 0) },
	"%smid": func(w *warp, r *lanes, t *tag) {
		setAffine(r, t, w.b.number%uint64(max(1, w.k.x.l.Multiprocessors)), 0)
	},
	"%ctaid.x":     func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.X), 0) },
	"%ctaid.y":     func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.Y), 0) },
	"%ctaid.z":     func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.Z), 0) },
	"%clusterid.x": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.X/w.k.x.cluster().X), 0) },
	"%clusterid.y": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.Y/w.k.x.cluster().Y), 0) },
	"%clusterid.z": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.Z/w.k.x.cluster().Z), 0) },

	"%cluster_ctaid.x": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.in.X), 0) },
	"%cluster_ctaid.y": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.in.Y), 0) },
	"%cluster_ctaid.z": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.in.Z), 0) },
	"%cluster_ctarank": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.rank), 0) },

	"%tid.x":       func(w *warp, r *lanes, t *tag) { setThread(w, r, t, 0) },
	"%tid.y":       func(w *warp, r *lanes, t *tag) { setThread(w, r, t, 1) },
	"%tid.z":       func(w *warp, r *lanes, t *tag) { setThread(w, r, t, 2) },
	"%lanemask_eq": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return 1 << i }) },
	"%lanemask_lt": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return 1<<i - 1 }) },
	"%lanemask_le": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return 2<<i - 1 }) },
	"%lanemask_gt": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return ^(2<<i - 1) }) },
	"%lanemask_ge": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return ^(1<<i - 1) }) },
}

// liveSpecials are special registers that change between reads.
var liveSpecials = map[string]func(w *warp) uint64{
	"%clock":          func(w *warp) uint64 { return w.clock() & 0xffffffff },
	"%clock_hi":       func(w *warp) uint64 { return w.clock() >> 32 },
	"%clock64":        func(w *warp) uint64 { return w.clock() },
	"%globaltimer":    func(w *warp) uint64 { return w.now() },
	"%globaltimer_lo": func(w *warp) uint64 { return w.now() & 0xffffffff },
	"%globaltimer_hi": func(w *warp) uint64 { return w.now() >> 32 },
}

// fixedSpecials are special registers with a fixed value.
var fixedSpecials = map[string]uint64{
	"%tid.w": 0, "%ntid.w": 0, "%ctaid.w": 0, "%nctaid.w": 0, "WARP_SZ": warpSize,
	"%current_graph_exec": 0,
}

// special returns the register that holds a special register.
func (d *decoder) special(name string) (int32, error) {
	if fixed(name) {
		return d.f.constReg(fixedSpecials[name]), nil
	}
	if read, ok := liveSpecials[name]; ok {
		reg := d.temp()
		d.emit(inst{d: reg, exec: execLiveSpecial, aux: read})
		return reg, nil
	}
	key := "special " + name
	if s, ok := d.f.alias[key]; ok {
		return s, nil
	}
	var reg int32
	if launch, ok := launchSpecials[name]; ok {
		reg = d.f.addConst(constant{launch: launch})
	} else if set, ok := warpSpecials[name]; ok {
		reg = d.temp()
		d.f.fixed[reg] = true
		d.f.specials = append(d.f.specials, special{reg, set})
	} else {
		return 0, missing("special register %s is not supported", name)
	}
	d.f.alias[key] = reg
	return reg, nil
}

// fixed reports whether a special register has a fixed value. That is 0 for registers
// that only drivers and profilers set.
func fixed(name string) bool {
	if _, ok := fixedSpecials[name]; ok {
		return true
	}
	_, set := launchSpecials[name]
	return !set && (strings.HasPrefix(name, "%envreg") || strings.HasPrefix(name, "%pm"))
}

func execLiveSpecial(w *warp, in *inst) {
	w.writeUniform(in.d, in.aux.(func(*warp) uint64)(w))
}

func setAffine(r *lanes, t *tag, base, stride uint64) {
	r[0] = base
	*t = tag{stride: stride, kind: kUniform}
	if stride != 0 {
		t.kind = kAffine
	}
}

func setMask(r *lanes, t *tag, f func(i int) uint32) {
	for i := range r {
		r[i] = uint64(f(i))
	}
	*t = tag{kind: kLanes}
}

// setThread sets one component of the index of each thread in its block.
func setThread(w *warp, r *lanes, t *tag, axis int) {
	dim := w.k.x.l.Block
	first := uint32(w.index) * warpSize
	if first%dim.X+warpSize <= dim.X || dim.Y*dim.Z == 1 {
		at := threadAt(first, dim)
		switch axis {
		case 0:
			setAffine(r, t, uint64(at.X), 1)
		case 1:
			setAffine(r, t, uint64(at.Y), 0)
		default:
			setAffine(r, t, uint64(at.Z), 0)
		}
		return
	}
	for i := range uint32(warpSize) {
		at := threadAt(first+i, dim)
		r[i] = uint64([3]uint32{at.X, at.Y, at.Z}[axis])
	}
	*t = tag{kind: kLanes}
}

// threadAt returns the index of thread number n of a block.
func threadAt(n uint32, dim cu.Dim3) cu.Dim3 {
	return cu.Dim3{X: n % dim.X, Y: n / dim.X % dim.Y, Z: n / dim.X / dim.Y}
}

// span returns one more than the highest lane of mask.
func span(mask uint32) int { return bits.Len32(mask) }

// The time of a warp is the number of instructions that it has run, plus its sleep.
// So kernels that read a clock do the same in every run on every computer.
//
// A warp may read a clock exactClockReads times in a row without extra cost. If it
// goes on, it waits for time to pass, and each further read takes clockGrowth times
// as long as the last. A warp that also polls memory may wait for another thread
// instead, so its clock is not sped up.
const (
	exactClockReads = 256
	clockGrowth     = 1.02
)

// ran returns how many instructions w has run.
func (w *warp) ran() uint64 { return w.issued + w.k.instructions - w.began }

// elapsed returns the time of w in nanoseconds since its block began.
func (w *warp) elapsed() uint64 {
	ns := w.slept + uint64(float64(w.ran())*w.k.x.latency)
	w.k.stats.Nap = max(w.k.stats.Nap, ns)
	return ns
}

// readClock returns the time for an instruction that reads a clock. It may advance the
// time.
func (w *warp) readClock() uint64 {
	if w.polledSinceClock {
		w.clockReads, w.clockStep, w.polledSinceClock = 0, 0, false
	}
	if w.clockReads++; w.clockReads > exactClockReads {
		w.clockStep = max(w.clockStep, 1) * clockGrowth
		w.slept += uint64(w.clockStep)
	}
	return w.elapsed()
}

// clock returns %clock64.
func (w *warp) clock() uint64 { return uint64(float64(w.readClock()) * w.k.x.hz / 1e9) }

// now returns %globaltimer, in nanoseconds.
func (w *warp) now() uint64 { return w.k.x.l.Began + w.readClock() }

// sleep runs nanosleep.
func (w *warp) sleep(ns uint32) {
	w.slept += uint64(ns)
	w.elapsed()
}

// OrderStep is the unit of Pages.Order. Accesses with the same order divided by it
// happen at the same time. They are loads, or stores, of blocks of one wave, within 32
// instructions of each thread.
const OrderStep = 1 << orderBlockBits

const (
	orderBlockBits = 24
	orderStepBits  = 24
	orderStride    = 5 // log2 of instructions
)

// order returns the time of an access of w for Pages.Order. It orders by wave of
// blocks, then by the instructions that the warp has run. Stores come after the loads
// that they probably wait for. The blocks of a wave run in parallel on many
// multiprocessors, and their accesses arrive in no particular order. So they are
// mixed, always in the same way.
func (w *warp) order(write bool) uint64 {
	n := w.b.number
	wave, place := uint64(0), n
	if r := w.k.x.l.Resident; r > 0 {
		wave, place = n/uint64(r), n%uint64(r)
	}
	step := w.ran() >> orderStride << 1
	if write {
		step++
	}
	step = min(step, 1<<orderStepBits-1)
	return min(wave, 1<<15)<<(orderStepBits+orderBlockBits) | step<<orderBlockBits | max(1, uint64(uint32(place)*0x9e3779b1>>(32-orderBlockBits)))
}
