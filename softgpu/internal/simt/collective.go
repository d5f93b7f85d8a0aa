package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/ptx"
)

// eachMembers calls f once for every set of active lanes that name the same members,
// with the lanes and the active members. Instructions with .sync name their members
// in register c. Without .sync, all active lanes are members.
func (w *warp) eachMembers(in *inst, f func(lanes, members uint32)) {
	if in.kind != kindSync {
		f(w.active, w.active)
		return
	}
	for rest := w.active; rest != 0; {
		m := uint32(w.f.lane(in.c, bits.TrailingZeros32(rest)))
		same := rest
		if t := w.f.tags[in.c]; t.kind&kUniform == 0 {
			same = 0
			for r := rest; r != 0; r &= r - 1 {
				if i := bits.TrailingZeros32(r); uint32(w.f.lane(in.c, i)) == m {
					same |= 1 << i
				}
			}
		}
		f(same, m&w.active)
		rest &^= same
	}
}

func decodeVote(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	out := inst{}
	if err := d.members(&out); err != nil {
		return err
	}
	p, not, err := d.predicate(d.in.Operands[1])
	if err != nil {
		return err
	}
	mode := d.hasAny("ballot", "all", "any", "uni")
	if mode == "ballot" {
		if out.d, err = d.dest(0); err != nil {
			return err
		}
		out.exec = func(w *warp, in *inst) {
			r := &w.k.tmp
			v := w.f.preds[p] ^ not
			one, first := true, uint32(0)
			w.eachMembers(in, func(lanes, members uint32) {
				first = v & members
				one = one && lanes == w.active
				for m := lanes; m != 0; m &= m - 1 {
					r[bits.TrailingZeros32(m)] = uint64(v & members)
				}
			})
			if one {
				w.writeUniform(in.d, uint64(first))
				return
			}
			w.write(in.d)
		}
		d.emit(out)
		return nil
	}
	dst, err := d.predicateDest(d.in.Operands[0])
	if err != nil {
		return err
	}
	out.exec = func(w *warp, in *inst) {
		v := w.f.preds[p] ^ not
		set := uint32(0)
		w.eachMembers(in, func(lanes, members uint32) {
			x := v & members
			if mode == "all" && x == members || mode == "any" && x != 0 || mode == "uni" && (x == 0 || x == members) {
				set |= lanes
			}
		})
		w.f.preds[dst] = w.f.preds[dst]&^w.active | set
	}
	d.emit(out)
	return nil
}

func decodeActiveMask(d *decoder) error {
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	d.emit(inst{d: dst, exec: func(w *warp, in *inst) { w.writeUniform(in.d, uint64(w.active)) }})
	return nil
}

// decodeElect decodes elect, which picks the lowest member.
func decodeElect(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	pair, ok := d.in.Operands[0].(ptx.Pair)
	if !ok {
		return missing("two destinations expected")
	}
	out := inst{}
	if err := d.members(&out); err != nil {
		return err
	}
	var err error
	if out.d, err = d.destOf(pair.First); err != nil {
		return err
	}
	p, err := d.predicateDest(pair.Second)
	if err != nil {
		return err
	}
	out.exec = func(w *warp, in *inst) {
		set := uint32(0)
		w.eachMembers(in, func(lanes, members uint32) {
			leader := members & -members
			set |= leader & lanes
			for m := lanes; m != 0; m &= m - 1 {
				w.k.tmp[bits.TrailingZeros32(m)] = uint64(bits.TrailingZeros32(leader))
			}
		})
		w.write(in.d)
		w.f.preds[p] = w.f.preds[p]&^w.active | set
	}
	d.emit(out)
	return nil
}

// decodeMatch decodes match, which finds the members that hold the same value.
func decodeMatch(d *decoder) error {
	if err := d.want(3); err != nil {
		return err
	}
	out := inst{}
	if err := d.members(&out); err != nil {
		return err
	}
	t := d.typ(0)
	dst, p := d.in.Operands[0], int32(-1)
	var err error
	if pair, ok := dst.(ptx.Pair); ok {
		dst = pair.First
		if p, err = d.predicateDest(pair.Second); err != nil {
			return err
		}
	}
	if out.d, err = d.destOf(dst); err != nil {
		return err
	}
	if out.a, err = d.source(1, t); err != nil {
		return err
	}
	all := d.has("all")
	out.exec = func(w *warp, in *inst) {
		a := w.f.expand(in.a)
		set := uint32(0)
		w.eachMembers(in, func(lanes, members uint32) {
			for m := lanes; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m)
				same := uint32(0)
				for r := members; r != 0; r &= r - 1 {
					if j := bits.TrailingZeros32(r); extend(a[j], t) == extend(a[i], t) {
						same |= 1 << j
					}
				}
				if all && same != members {
					same = 0
				} else {
					set |= 1 << i
				}
				w.k.tmp[i] = uint64(same)
			}
		})
		w.write(in.d)
		if p >= 0 {
			w.f.preds[p] = w.f.preds[p]&^w.active | set
		}
	}
	d.emit(out)
	return nil
}

// decodeRedux decodes redux, which reduces the values of the members.
func decodeRedux(d *decoder) error {
	if err := d.want(3); err != nil {
		return err
	}
	t := d.typ(0)
	op := d.hasAny("add", "min", "max", "and", "or", "xor")
	f := reduction(op, t)
	if f == nil {
		return missing("reduction %s of %v is not supported", op, t)
	}
	out := inst{}
	if err := d.members(&out); err != nil {
		return err
	}
	var err error
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	if out.a, err = d.source(1, t); err != nil {
		return err
	}
	out.exec = func(w *warp, in *inst) {
		a := w.f.expand(in.a)
		w.eachMembers(in, func(lanes, members uint32) {
			first := bits.TrailingZeros32(members) & 31
			v := a[first]
			for r := members & (members - 1); r != 0; r &= r - 1 {
				v = f(v, a[bits.TrailingZeros32(r)])
			}
			for m := lanes; m != 0; m &= m - 1 {
				w.k.tmp[bits.TrailingZeros32(m)] = v
			}
		})
		w.write(in.d)
	}
	d.emit(out)
	return nil
}

// decodeShfl decodes shfl, which moves values between lanes.
func decodeShfl(d *decoder) error {
	if err := d.want(4); err != nil {
		return err
	}
	out := inst{}
	if err := d.members(&out); err != nil {
		return err
	}
	dst, p := d.in.Operands[0], int32(-1)
	var err error
	if pair, ok := dst.(ptx.Pair); ok {
		dst = pair.First
		if p, err = d.predicateDest(pair.Second); err != nil {
			return err
		}
	}
	if out.d, err = d.destOf(dst); err != nil {
		return err
	}
	if out.a, err = d.source(1, ptx.B32); err != nil {
		return err
	}
	if out.b, err = d.source(2, ptx.U32); err != nil {
		return err
	}
	bound, err := d.source(3, ptx.U32)
	if err != nil {
		return err
	}
	mode := shuffles[d.hasAny("up", "down", "bfly", "idx")]
	out.exec = func(w *warp, in *inst) {
		f := w.f
		var set uint32
		if a, b, c := f.expand(in.a), f.expand(in.b), f.expand(bound); w.full && in.d != in.a && in.d != in.b && in.d != bound {
			set = mode.shuffle(w.dest(in.d), a, b, c)
		} else {
			set = mode.shuffle(&w.k.tmp, a, b, c)
			w.write(in.d)
		}
		if p >= 0 {
			f.preds[p] = f.preds[p]&^w.active | set&w.active
		}
	}
	d.emit(out)
	return nil
}

// shuffleMode says which lane a lane reads from.
type shuffleMode uint8

const (
	shuffleIndex shuffleMode = iota
	shuffleUp
	shuffleDown
	shuffleButterfly
)

var shuffles = map[string]shuffleMode{"idx": shuffleIndex, "up": shuffleUp, "down": shuffleDown, "bfly": shuffleButterfly}

// shuffle copies to each lane of d the value of another lane of a. It returns the
// mask of the lanes whose source is in their segment; the other lanes get their own
// value.
func (mode shuffleMode) shuffle(d, a, b, c *lanes) (set uint32) {
	for i := range d {
		from, ok := mode.source(i, uint32(b[i]), uint32(c[i]))
		if ok {
			set |= 1 << i
		} else {
			from = i
		}
		d[i] = a[from&(warpSize-1)]
	}
	return set
}

// source returns the lane that lane i reads from, and whether it is in the segment of
// lane i.
func (mode shuffleMode) source(i int, b, c uint32) (int, bool) {
	by := int(b & 31)
	clamp, seg := int(c&31), int(c>>8&31)
	last := i&seg | clamp&^seg
	j := i&seg | by&^seg
	switch mode {
	case shuffleUp:
		j = i - by
		return j & 31, j >= last
	case shuffleDown:
		j = i + by
	case shuffleButterfly:
		j = i ^ by
	}
	return j & 31, j <= last
}

func trailing(m uint32) int { return bits.TrailingZeros32(m) & (warpSize - 1) }
