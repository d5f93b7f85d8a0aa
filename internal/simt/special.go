package simt

import (
	"math/bits"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

// Special registers that are the same for the whole launch.
var launchSpecials = map[string]func(x *execution) uint64{
	"%ntid.x":            func(x *execution) uint64 { return uint64(x.l.Block.X) },
	"%ntid.y":            func(x *execution) uint64 { return uint64(x.l.Block.Y) },
	"%ntid.z":            func(x *execution) uint64 { return uint64(x.l.Block.Z) },
	"%nctaid.x":          func(x *execution) uint64 { return uint64(x.l.Grid.X) },
	"%nctaid.y":          func(x *execution) uint64 { return uint64(x.l.Grid.Y) },
	"%nctaid.z":          func(x *execution) uint64 { return uint64(x.l.Grid.Z) },
	"%nclusterid.x":      func(x *execution) uint64 { return uint64(x.l.Grid.X) },
	"%nclusterid.y":      func(x *execution) uint64 { return uint64(x.l.Grid.Y) },
	"%nclusterid.z":      func(x *execution) uint64 { return uint64(x.l.Grid.Z) },
	"%nwarpid":           func(*execution) uint64 { return 64 },
	"%nsmid":             func(x *execution) uint64 { return uint64(max(1, x.l.Multiprocessors)) },
	"%gridid":            func(*execution) uint64 { return 1 },
	"%dynamic_smem_size": func(x *execution) uint64 { return uint64(x.l.SharedBytes) },
	"%total_smem_size":   func(x *execution) uint64 { return uint64(x.sharedBytes) },
	"%aggr_smem_size":    func(x *execution) uint64 { return uint64(x.sharedBytes) },
}

// Those that are the same for a warp, or differ from lane to lane in one way for
// as long as the warp lives.
var warpSpecials = map[string]func(w *warp, r *lanes, t *tag){
	"%laneid": func(_ *warp, r *lanes, t *tag) { setAffine(r, t, 0, 1) },
	"%warpid": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.index), 0) },
	"%smid": func(w *warp, r *lanes, t *tag) {
		setAffine(r, t, w.b.number%uint64(max(1, w.k.x.l.Multiprocessors)), 0)
	},
	"%ctaid.x":     func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.X), 0) },
	"%ctaid.y":     func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.Y), 0) },
	"%ctaid.z":     func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.Z), 0) },
	"%clusterid.x": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.X), 0) },
	"%clusterid.y": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.Y), 0) },
	"%clusterid.z": func(w *warp, r *lanes, t *tag) { setAffine(r, t, uint64(w.b.at.Z), 0) },
	"%tid.x":       func(w *warp, r *lanes, t *tag) { setThread(w, r, t, 0) },
	"%tid.y":       func(w *warp, r *lanes, t *tag) { setThread(w, r, t, 1) },
	"%tid.z":       func(w *warp, r *lanes, t *tag) { setThread(w, r, t, 2) },
	"%lanemask_eq": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return 1 << i }) },
	"%lanemask_lt": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return 1<<i - 1 }) },
	"%lanemask_le": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return 2<<i - 1 }) },
	"%lanemask_gt": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return ^(2<<i - 1) }) },
	"%lanemask_ge": func(_ *warp, r *lanes, t *tag) { setMask(r, t, func(i int) uint32 { return ^(1<<i - 1) }) },
}

// Those that are read anew each time.
var liveSpecials = map[string]func(w *warp) uint64{
	"%clock":          func(w *warp) uint64 { return w.clock() & 0xffffffff },
	"%clock_hi":       func(w *warp) uint64 { return w.clock() >> 32 },
	"%clock64":        func(w *warp) uint64 { return w.clock() },
	"%globaltimer":    func(w *warp) uint64 { return w.now() },
	"%globaltimer_lo": func(w *warp) uint64 { return w.now() & 0xffffffff },
	"%globaltimer_hi": func(w *warp) uint64 { return w.now() >> 32 },
}

// One block is a cluster of its own.
var fixedSpecials = map[string]uint64{
	"%cluster_ctaid.x": 0, "%cluster_ctaid.y": 0, "%cluster_ctaid.z": 0,
	"%cluster_nctaid.x": 1, "%cluster_nctaid.y": 1, "%cluster_nctaid.z": 1,
	"%cluster_ctarank": 0, "%cluster_nctarank": 1, "%is_explicit_cluster": 0,
	"%tid.w": 0, "%ntid.w": 0, "%ctaid.w": 0, "%nctaid.w": 0, "WARP_SZ": warpSize,
	"%current_graph_exec": 0,
}

// special is the slot of a special register.
func (d *decoder) special(name string) (int32, error) {
	if v, ok := fixedSpecials[name]; ok || strings.HasPrefix(name, "%envreg") || strings.HasPrefix(name, "%pm") {
		return d.f.constSlot(v), nil
	}
	if read, ok := liveSpecials[name]; ok {
		slot := d.temp()
		d.emit(inst{d: slot, exec: execLiveSpecial, aux: read})
		return slot, nil
	}
	key := "special " + name
	if s, ok := d.f.alias[key]; ok {
		return s, nil
	}
	var slot int32
	if launch, ok := launchSpecials[name]; ok {
		slot = d.f.addConst(constant{launch: launch})
	} else if set, ok := warpSpecials[name]; ok {
		slot = d.temp()
		d.f.fixed[slot] = true
		d.f.specials = append(d.f.specials, special{slot, set})
	} else {
		return 0, missing("special register %s is not supported", name)
	}
	d.f.alias[key] = slot
	return slot, nil
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

// setThread sets a component of the thread's index within the block.
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

// threadAt is the index of the n'th thread of a block.
func threadAt(n uint32, dim cu.Dim3) cu.Dim3 {
	return cu.Dim3{X: n % dim.X, Y: n / dim.X % dim.Y, Z: n / dim.X / dim.Y}
}

// span is one more than the highest lane of mask.
func span(mask uint32) int { return bits.Len32(mask) }
