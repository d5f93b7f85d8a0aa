package simt

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/ptxforms"
)

// kind is how the main loop handles an instruction.
type kind uint8

const (
	kindExec    kind = iota // runs to its end for the active lanes
	kindBranch              // jumps to target
	kindIndexed             // brx.idx
	kindCall
	kindRet
	kindExit
	kindBarrier     // bar, barrier
	kindSync        // waits for the member lanes, then runs like kindExec
	kindYield       // lets other warps run
	kindUnsupported // a launch of the kernel is refused
)

// inst is a decoded instruction. Its operands are indices of registers in the frame.
type inst struct {
	kind     kind
	guard    int32  // predicate, -1 for none
	guardNot uint32 // XORed with the guard
	cost     uint32 // number of PTX instructions that it stands for
	class    Class
	shares   sharing
	fence    fence

	d, a, b, c int32
	p, q       int32 // predicate operands: destinations of setp, sources of selp
	pNot       uint32
	target     int32

	exec func(w *warp, in *inst)
	vec  vec
	cmp  compareFunc
	aff  affOp // what vec does to affine registers

	mem   *access
	call  *callSite
	table []int32
	aux   any // what only one kind of instruction needs

	src *ptx.Instr
}

// decoder decodes one function.
type decoder struct {
	f     *function
	in    *ptx.Instr
	types []ptx.Type // the types among the modifiers, in order
	cost  uint32     // instructions dropped since the last one that was emitted
	label int        // code index of the last label
	start []int      // code index of each instruction of the body
	flow  *flow

	joins  joins
	tables map[string][]int32 // of labels, by name

	early    map[int]early // by instruction of the body
	aliasing bool          // an instruction is decoded early
}

// use makes instruction i of the body the current one.
func (d *decoder) use(i int) {
	d.in = &d.f.src.Body[i]
	d.types = d.types[:0]
	for _, m := range d.in.Mods {
		if t, ok := ptx.ParseType(m); ok {
			d.types = append(d.types, t)
		}
	}
}

// missing returns the error of an instruction that cannot be decoded.
func missing(format string, args ...any) error {
	return fmt.Errorf(format, args...)
}

// link turns the targets of branches from body indices into code indices.
func (d *decoder) link() {
	for i := range d.f.code {
		if in := &d.f.code[i]; in.kind == kindBranch {
			in.target = int32(d.start[in.target])
		}
	}
	for _, table := range d.tables {
		for j, t := range table {
			table[j] = int32(d.start[t])
		}
	}
}

// decodeOne decodes d.in, instruction i of the body.
func (d *decoder) decodeOne(i int) error {
	if err := ptxforms.Check(d.in); err != nil {
		return err
	}
	if p := d.joins.products[i]; p != nil {
		return d.decodeProduct(p)
	}
	if s, ok := d.joins.sums[i]; ok {
		return d.decodeJoined(s)
	}
	return decoders[d.in.Op](d)
}

// emit appends an instruction with the guard of the current PTX instruction.
func (d *decoder) emit(out inst) *inst {
	out.src = d.in
	out.guard = -1
	if d.in.Guard != "" {
		r, ok := d.f.regs[d.in.Guard]
		if ok && r.pred {
			out.guard = r.index
		} else {
			out.guard = 0
		}
		if d.in.Negate {
			out.guardNot = allLanes
		}
	}
	out.cost = d.cost + 1
	out.class = classOf(d.in)
	d.cost = 0
	d.f.code = append(d.f.code, out)
	return &d.f.code[len(d.f.code)-1]
}

// elide drops an instruction that has no effect here. It still counts as run.
func (d *decoder) elide() error {
	d.cost++
	return nil
}

// targets returns the instructions that have a label, by index.
func (f *function) targets() map[int]bool {
	at := make(map[int]bool, len(f.src.Labels))
	for _, i := range f.src.Labels {
		at[i] = true
	}
	return at
}

// settle makes the instructions that were dropped before a label count where they stand: a
// branch to the label does not run them.
func (d *decoder) settle() {
	last := len(d.f.code) - 1
	switch {
	case d.cost == 0:
	case last >= d.label && d.f.code[last].kind == kindExec:
		d.f.code[last].cost += d.cost
		d.cost = 0
	default: // no instruction before the label always runs with them
		d.cost--
		d.emit(inst{exec: func(*warp, *inst) {}})
	}
	d.label = len(d.f.code)
}

func (d *decoder) has(mod string) bool { return slices.Contains(d.in.Mods, mod) }

// hasAny returns the first of mods that the instruction has, "" if it has none.
func (d *decoder) hasAny(mods ...string) string {
	for _, m := range mods {
		if d.has(m) {
			return m
		}
	}
	return ""
}

// typ returns the i'th type among the modifiers.
func (d *decoder) typ(i int) ptx.Type {
	if i >= 0 && i < len(d.types) {
		return d.types[i]
	}
	return ptx.NoType
}

func (d *decoder) operand(i int) ptx.Operand {
	if i < len(d.in.Operands) {
		return d.in.Operands[i]
	}
	return nil
}

func (d *decoder) want(n int) error {
	if len(d.in.Operands) < n {
		return missing("%d operands, at least %d expected", len(d.in.Operands), n)
	}
	return nil
}

// regName returns the key of a register operand in function.regs.
func regName(r ptx.Reg) string {
	if r.Comp != 0 {
		return r.Name + "." + string(r.Comp)
	}
	return r.Name
}

// source returns the register of operand i, which is read as type t.
func (d *decoder) source(i int, t ptx.Type) (int32, error) {
	if err := d.want(i + 1); err != nil {
		return 0, err
	}
	return d.value(d.in.Operands[i], t)
}

// value returns the register of an operand that is read as type t.
func (d *decoder) value(op ptx.Operand, t ptx.Type) (int32, error) {
	switch op := op.(type) {
	case ptx.Reg:
		if op.Special {
			return d.special(op.Name)
		}
		if op.Sel != "" {
			return 0, missing("parts of registers such as .%s are not supported", op.Sel)
		}
		if op.Minus {
			return 0, missing("negated registers are not supported")
		}
		name := regName(op)
		if s, ok := d.f.alias[name]; ok {
			return s, nil
		}
		r, ok := d.f.regs[name]
		if !ok {
			return 0, missing("no register %s", name)
		}
		if r.pred {
			return 0, missing("predicate %s used as a value", name)
		}
		if r.typ == ptx.B128 {
			return 0, missing("128-bit registers are not supported")
		}
		return r.index, nil
	case ptx.Imm:
		return d.f.constReg(op.Value), nil
	case ptx.Float:
		return d.f.constReg(floatBits(op, t)), nil
	case ptx.Sym:
		return d.symbol(op.Name, op.Offset)
	}
	return 0, missing("an operand of this form (%T) is not supported here", op)
}

// dest returns the register of operand i, which is written.
func (d *decoder) dest(i int) (int32, error) {
	if err := d.want(i + 1); err != nil {
		return 0, err
	}
	return d.destOf(d.in.Operands[i])
}

func (d *decoder) destOf(op ptx.Operand) (int32, error) {
	switch op := op.(type) {
	case ptx.Sink:
		return d.temp(), nil
	case ptx.Reg:
		if op.Sel != "" {
			return 0, missing("parts of registers such as .%s are not supported", op.Sel)
		}
		r, ok := d.f.regs[regName(op)]
		switch {
		case !ok:
			return 0, missing("no register %s to write", regName(op))
		case r.pred:
			return 0, missing("predicate %s used as the destination of a value", regName(op))
		case r.typ == ptx.B128:
			return 0, missing("128-bit registers are not supported")
		}
		return r.index, nil
	}
	return 0, missing("a destination of this form (%T) is not supported here", op)
}

// temp returns a new register.
func (d *decoder) temp() int32 {
	d.f.numRegs++
	return d.f.numRegs - 1
}

// predicate returns the index of a predicate that is read, and the mask to XOR it
// with.
func (d *decoder) predicate(op ptx.Operand) (reg int32, not uint32, err error) {
	switch op := op.(type) {
	case ptx.Reg:
		r, ok := d.f.regs[regName(op)]
		if !ok || !r.pred {
			return 0, 0, missing("%s is not a predicate", op.Name)
		}
		if op.Negate {
			not = allLanes
		}
		return r.index, not, nil
	case ptx.Imm:
		if op.Value != 0 {
			not = allLanes
		}
		return 0, not, nil
	}
	return 0, 0, missing("an operand of this form (%T) is not a predicate", op)
}

// predicateDest returns the index of a predicate that is written.
func (d *decoder) predicateDest(op ptx.Operand) (int32, error) {
	switch op := op.(type) {
	case ptx.Sink:
		d.f.numPreds++
		return d.f.numPreds - 1, nil
	case ptx.Reg:
		if r, ok := d.f.regs[regName(op)]; ok && r.pred {
			return r.index, nil
		}
		return 0, missing("%s is not a predicate", op.Name)
	}
	return 0, missing("an operand of this form (%T) is not a predicate", op)
}

// pure emits an instruction without side effects that computes operand 0 from the
// others.
func (d *decoder) pure(v vec, aff affOp, types ...ptx.Type) error {
	out := inst{exec: execPure, vec: v, aff: aff}
	var err error
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	at := [...]*int32{&out.a, &out.b, &out.c}
	for i, t := range types {
		if *at[i], err = d.source(i+1, t); err != nil {
			return err
		}
	}
	d.emit(out)
	return nil
}

func (d *decoder) badType() error { return missing("type %v is not supported here", d.typ(0)) }

// wholeWarp makes an instruction wait for all lanes.
func (d *decoder) wholeWarp(out *inst) {
	out.kind = kindSync
	out.c = d.f.constReg(uint64(allLanes))
}

// members decodes the member mask of the .sync forms, which is the last operand.
func (d *decoder) members(out *inst) error {
	if !d.has("sync") {
		return nil
	}
	if len(d.in.Operands) == 0 {
		return missing("no member mask")
	}
	var err error
	out.kind = kindSync
	out.c, err = d.source(len(d.in.Operands)-1, ptx.B32)
	return err
}

// registersOf returns the registers of operand i, a vector of n.
func (d *decoder) registersOf(i, n int, resolve func(ptx.Operand) (int32, error)) ([]int32, error) {
	regs := []ptx.Operand{d.in.Operands[i]}
	if v, ok := d.in.Operands[i].(ptx.Vec); ok {
		regs = v.Elems
	}
	if len(regs) != n {
		return nil, missing("operand %d has %d registers, %d expected", i+1, len(regs), n)
	}
	out := make([]int32, n)
	for j, o := range regs {
		var err error
		if out[j], err = resolve(o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decoders holds the decoders of all operations, by opcode.
var decoders map[string]func(*decoder) error

func init() {
	decoders = map[string]func(*decoder) error{
		// data movement
		"ld": decodeLoad, "ldu": decodeLoad, "st": decodeStore,
		"cvta": decodeCvta, "isspacep": decodeIsSpace, "mapa": decodeMapa, "getctarank": decodeGetctarank,
		"mov": decodeMove,
		// integer arithmetic
		"add": decodeAdd, "sub": decodeSub, "mul": decodeMul, "mad": decodeMad, "fma": decodeFma,
		"div": decodeDiv, "rem": decodeRem, "abs": decodeAbs, "neg": decodeNeg, "min": decodeMin, "max": decodeMax,
		"addc": decodeCarry, "subc": decodeCarry, "madc": decodeCarry,
		"mul24": decodeMul24, "mad24": decodeMad24, "sad": decodeSad, "dp4a": decodeDot, "dp2a": decodeDot,
		// bits
		"and": decodeLogic, "or": decodeLogic, "xor": decodeLogic, "not": decodeLogic, "cnot": decodeLogic,
		"shl": decodeShift, "shr": decodeShift, "shf": decodeFunnel, "lop3": decodeLop3, "prmt": decodePrmt,
		"bfe": decodeBfe, "bfi": decodeBfi, "bfind": decodeBfind, "brev": decodeBits, "popc": decodeBits, "clz": decodeBits,
		"fns": decodeFns, "bmsk": decodeBmsk, "szext": decodeSzext,
		"vshr": decodeVideoShift,
		// comparison and selection
		"setp": decodeSetp, "set": decodeSet, "selp": decodeSelp, "slct": decodeSlct,
		// floating point and conversions
		"rcp": decodeUnaryFloat, "sqrt": decodeUnaryFloat, "rsqrt": decodeUnaryFloat, "sin": decodeUnaryFloat,
		"cos": decodeUnaryFloat, "lg2": decodeUnaryFloat, "ex2": decodeUnaryFloat, "tanh": decodeUnaryFloat,
		"copysign": decodeCopysign, "testp": decodeTestp, "cvt": decodeCvt,
		// control flow and barriers
		"bra": decodeBra, "brx": decodeBrx, "call": decodeCall, "ret": decodeRet, "exit": decodeExit,
		"bar": decodeBar, "barrier": decodeBar, "nanosleep": decodeYield, "trap": decodeTrap, "brkpt": decodeTrap,
		"pmevent": decodeNop, "griddepcontrol": decodeNop, "prefetch": decodeNop, "prefetchu": decodeNop,
		"discard": decodeNop, "applypriority": decodeNop, "createpolicy": decodeCreatePolicy, "setmaxnreg": decodeNop,
		"membar": decodeFence, "fence": decodeFence,
		// communication within a warp
		"vote": decodeVote, "match": decodeMatch, "redux": decodeRedux, "shfl": decodeShfl,
		"activemask": decodeActiveMask, "elect": decodeElect,
		// the stack
		"alloca": decodeAlloca, "stacksave": decodeStackSave, "stackrestore": decodeStackRestore,
		// matrices
		"ldmatrix": decodeLoadMatrix, "stmatrix": decodeStoreMatrix, "movmatrix": decodeMoveMatrix, "mma": decodeMMA, "wmma": decodeWmma,
		"mbarrier": decodeMbarrier,
		// atomics and copies
		"atom": decodeAtom, "red": decodeAtom, "cp": decodeCopy,
	}
}
