package simt

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// function is a device function or kernel in dense form.
type function struct {
	id      int
	name    string
	src     *ptx.Func
	program *Program

	code     []inst
	consts   []constant
	specials []special
	firstReg int32 // the declared registers
	endReg   int32
	slots    int32
	preds    int32

	regs    map[string]register
	fixed   map[int32]bool   // slots that no instruction writes
	values  map[uint64]int32 // slots of plain constants
	alias   map[string]int32 // registers that are another name of a constant slot
	vars    map[string]*ptx.Var
	local   map[string]int // local variables and, in functions, parameters: offset in the frame
	args    map[string]*ptx.Param
	shared  []*ptx.Var
	callees []*function
	bad     []*unsupported

	params     []ptx.Param
	paramBytes int
	localBytes int
	words      int

	carry int32 // predicate that is the carry flag, 0 for none

	paramPlaces, resultPlaces []place // of a device function
}

// register is a place in the frame.
type register struct {
	slot int32
	pred bool
	typ  ptx.Type
}

// constant is a slot that has one value throughout a launch.
type constant struct {
	slot   int32
	value  uint64
	param  func(params []byte) uint64
	launch func(x *execution) uint64
}

// special is a slot that is set when a warp starts.
type special struct {
	slot int32
	set  func(w *warp, r *lanes, t *tag)
}

type unsupported struct {
	pos      ptx.Pos
	op, what string
}

func (f *function) firstUnsupported() *unsupported {
	if len(f.bad) == 0 {
		return nil
	}
	return f.bad[0]
}

// layout gives variables their places.
func (f *function) layout() {
	f.regs = map[string]register{}
	f.vars = map[string]*ptx.Var{}
	f.local = map[string]int{}
	f.args = map[string]*ptx.Param{}
	f.alias = map[string]int32{}
	f.fixed = map[int32]bool{}
	f.values = map[uint64]int32{}
	for _, v := range f.src.Vars {
		f.vars[v.Name] = v
	}
	if f.src.Entry {
		f.params, f.paramBytes = f.src.ParamLayout()
		for i := range f.params {
			f.args[f.params[i].Name] = &f.params[i]
		}
	} else {
		for _, list := range [][]*ptx.Var{f.src.Returns, f.src.Params} {
			for _, v := range list {
				if v.Space == ptx.RegSpace {
					continue // a register of old PTX, declared like any other
				}
				f.place(v)
			}
		}
	}
	for _, v := range f.src.Vars {
		if v.Space == ptx.LocalSpace || v.Space == ptx.ParamSpace {
			f.place(v)
		}
	}
	f.localBytes = alignUp(f.localBytes, 16)
}

func (f *function) place(v *ptx.Var) {
	f.vars[v.Name] = v
	f.localBytes = alignUp(f.localBytes, max(v.Align, 1))
	f.local[v.Name] = f.localBytes
	f.localBytes += v.Size()
}

// declareRegisters numbers the slots of registers from firstReg on.
func (f *function) declareRegisters() {
	list := f.src.Vars
	if !f.src.Entry {
		list = slices.Concat(f.src.Returns, f.src.Params, list)
	}
	for _, v := range list {
		if v.Space != ptx.RegSpace {
			continue
		}
		if v.Count == 0 {
			f.declareRegister(v, v.Name)
			continue
		}
		for i := range v.Count {
			f.declareRegister(v, v.Name+strconv.Itoa(i))
		}
	}
}

func (f *function) declareRegister(v *ptx.Var, name string) {
	if v.Type == ptx.Pred {
		f.regs[name] = register{slot: f.preds, pred: true, typ: v.Type}
		f.preds++
		return
	}
	add := func(name string) {
		f.regs[name] = register{slot: f.slots, typ: v.Type}
		f.slots++
		f.words += (v.Type.Size() + 3) / 4
	}
	if v.Vec > 1 {
		for i := range v.Vec {
			add(name + "." + "xyzw"[i&3:i&3+1])
		}
		return
	}
	add(name)
}

// constSlot is the slot that holds v in every lane.
func (f *function) constSlot(v uint64) int32 {
	slot, ok := f.values[v]
	if !ok {
		slot = f.addConst(constant{value: v})
		f.values[v] = slot
	}
	return slot
}

func (f *function) addConst(c constant) int32 {
	c.slot = f.slots
	f.slots++
	f.fixed[c.slot] = true
	f.consts = append(f.consts, c)
	return c.slot
}

// paramSlot is the slot that holds a kernel parameter, or a part of one.
func (f *function) paramSlot(off int, t ptx.Type) int32 {
	n := t.Size()
	return f.addConst(constant{param: func(params []byte) uint64 {
		var v uint64
		for i := range n {
			if off+i < len(params) {
				v |= uint64(params[off+i]) << (8 * i)
			}
		}
		return extend(v, t)
	}})
}

// opText is the opcode with its modifiers.
func opText(in *ptx.Instr) string {
	if len(in.Mods) == 0 {
		return in.Op
	}
	return in.Op + "." + strings.Join(in.Mods, ".")
}
