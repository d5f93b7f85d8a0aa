package simt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/ptx"
)

// function is a device function or a kernel in decoded form.
type function struct {
	id      int
	name    string
	src     *ptx.Func
	program *Program

	code       []inst
	operations []operation // of code, those that only compute
	stretches  []stretch   // by index of code
	consts     []constant
	specials   []special
	firstReg   int32 // firstReg to endReg-1 are the declared registers
	endReg     int32
	numRegs    int32
	numPreds   int32

	regs    map[string]register
	fixed   map[int32]bool    // registers that no instruction writes
	values  map[uint64]int32  // registers of plain constants, by value
	symbols map[ptx.Sym]int32 // registers of addresses of variables
	uses    []int             // indices in Program.variables of the variables whose addresses it uses
	alias   map[string]int32  // declared registers that stand for a constant register
	vars    map[string]*ptx.Var
	local   map[string]int // frame offset of local variables and, in device functions, of parameters
	args    map[string]*ptx.Param
	shared  []*ptx.Var
	callees []*function        // that it calls or whose address it takes, nil for all
	called  map[*function]bool // the same as a set; true for those that it calls by name
	bad     []*unsupported

	params     []ptx.Param
	paramBytes int
	localBytes int

	heap     bool        // it calls malloc or free
	alloca   bool        // it calls alloca
	direct   []*function // that it calls by name
	indirect bool        // it calls through a pointer
	stack    int         // what findStack found, where the depth of calls is not bounded
	folds    bool        // it does not recurse, and may be made a part of the kernel
	folded   int         // the stack of such functions that it calls

	pressure, barriers int // what findPressure and findBarriers found

	findLooked sync.Once
	looked     bitset // what lookedAt found

	carry int32 // the predicate that is the carry flag, 0 if there is none

	paramPlaces, resultPlaces []place // of a device function
}

// register is the index of a declared register, or predicate, in the frame.
type register struct {
	index int32
	pred  bool
	typ   ptx.Type
}

// constant is a register with one value for a whole launch.
type constant struct {
	reg    int32
	value  uint64
	param  func(params []byte) uint64
	launch func(x *execution) uint64
}

// special is a register that is set when a warp starts.
type special struct {
	reg int32
	set func(w *warp, r *lanes, t *tag)
}

type unsupported struct {
	in       *function
	pos      ptx.Pos
	op, what string
}

func (f *function) firstUnsupported() *unsupported {
	if len(f.bad) == 0 {
		return nil
	}
	return f.bad[0]
}

// layout assigns offsets to the variables of the function.
func (f *function) layout() {
	f.regs = map[string]register{}
	f.vars = map[string]*ptx.Var{}
	f.local = map[string]int{}
	f.args = map[string]*ptx.Param{}
	f.alias = map[string]int32{}
	f.fixed = map[int32]bool{}
	f.values = map[uint64]int32{}
	f.symbols = map[ptx.Sym]int32{}
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
					continue // a register parameter of old PTX, declared like any other register
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

// registers returns the declarations of registers, of parameters too.
func (f *function) registers() []*ptx.Var {
	list := f.src.Vars
	if !f.src.Entry {
		list = slices.Concat(f.src.Returns, f.src.Params, list)
	}
	return slices.DeleteFunc(slices.Clone(list), func(v *ptx.Var) bool { return v.Space != ptx.RegSpace })
}

// declareRegisters numbers the declared registers from firstReg on. Of a range such as
// %r<1000> it numbers those that the body names, so the others cost nothing.
func (f *function) declareRegisters() {
	used := f.usedOfRanges()
	for _, v := range f.registers() {
		if v.Count == 0 {
			f.declareRegister(v, v.Name)
		}
		for _, i := range used[v] {
			f.declareRegister(v, v.Name+strconv.Itoa(i))
		}
		if f.numRegs+f.numPreds > maxRegisters {
			f.bad = append(f.bad, &unsupported{in: f, pos: v.Pos, op: ".reg", what: fmt.Sprintf("more than %d used registers in %s", maxRegisters, f.name)})
			return
		}
	}
}

// usedOfRanges returns the numbers of the registers of each range that the body names,
// in ascending order.
func (f *function) usedOfRanges() map[*ptx.Var][]int {
	ranges := map[string]*ptx.Var{}
	for _, v := range f.registers() {
		if v.Count > 0 {
			ranges[v.Name] = v
		}
	}
	used, seen := map[*ptx.Var][]int{}, map[string]bool{}
	for i := range f.src.Body {
		eachRegister(&f.src.Body[i], func(name string) {
			name, _, _ = strings.Cut(name, ".")
			if seen[name] {
				return
			}
			seen[name] = true
			if v, k := memberOf(ranges, name); v != nil {
				used[v] = append(used[v], k)
			}
		})
	}
	for _, list := range used {
		slices.Sort(list)
	}
	return used
}

// memberOf returns the range that has a register of that name, and the register's number.
// It returns nil if there is none.
func memberOf(ranges map[string]*ptx.Var, name string) (*ptx.Var, int) {
	for i := len(name) - 1; i > 0 && name[i] >= '0' && name[i] <= '9'; i-- {
		v := ranges[name[:i]]
		if v == nil {
			continue
		}
		k, err := strconv.Atoi(name[i:])
		if err == nil && k < v.Count && strconv.Itoa(k) == name[i:] {
			return v, k
		}
	}
	return nil, 0
}

func (f *function) declareRegister(v *ptx.Var, name string) {
	if v.Type == ptx.Pred {
		f.regs[name] = register{index: f.numPreds, pred: true, typ: v.Type}
		f.numPreds++
		return
	}
	add := func(name string) {
		f.regs[name] = register{index: f.numRegs, typ: v.Type}
		f.numRegs++
	}
	if v.Vec > 1 {
		for i := range v.Vec {
			add(name + "." + "xyzw"[i&3:i&3+1])
		}
		return
	}
	add(name)
}

// maxRegisters is how many registers a function can use. A warp would need 128 MiB for
// them. Compilers use some thousand.
const maxRegisters = 1 << 19

// number assigns the indices of registers. Register 0 and predicate 0 are always
// zero.
func (f *function) number() {
	f.constReg(0)
	f.numPreds = 1
	f.firstReg = f.numRegs
	f.declareRegisters()
	f.endReg = f.numRegs
	if !f.src.Entry {
		f.paramPlaces = f.calleePlaces(f.src.Params)
		f.resultPlaces = f.calleePlaces(f.src.Returns)
	}
}

// decode fills f.code. Instructions that cannot run are recorded in f.bad.
func (f *function) decode(fl *flow) {
	if f.numRegs+f.numPreds > maxRegisters { // not all have a number
		return
	}
	d := &decoder{f: f, flow: fl, tables: map[string][]int32{}}
	d.start = make([]int, len(f.src.Body)+1)
	d.joins = fl.findJoins()
	d.findAliases()
	targets := f.targets()
	for i := range f.src.Body {
		if targets[i] {
			d.settle()
		}
		d.start[i] = len(f.code)
		d.use(i)
		n := len(f.code)
		if e, ok := d.early[i]; ok {
			d.emitEarly(e)
		} else if err := d.decodeOne(i); err != nil {
			f.code = append(f.code[:n], inst{kind: kindUnsupported, guard: -1, src: d.in})
			f.bad = append(f.bad, &unsupported{in: f, pos: d.in.Pos, op: opText(d.in), what: err.Error()})
		}
	}
	d.start[len(f.src.Body)] = len(f.code)
	end := inst{kind: kindRet, guard: -1, cost: d.cost, src: &ptx.Instr{Op: "ret"}}
	if n := len(f.src.Body); n > 0 {
		end.src = &ptx.Instr{Op: "ret", Pos: f.src.Body[n-1].Pos}
	}
	f.code = append(f.code, end)
	d.link()
	f.findStretches()
}

// constReg returns the register that holds v in every lane.
func (f *function) constReg(v uint64) int32 {
	reg, ok := f.values[v]
	if !ok {
		reg = f.addConst(constant{value: v})
		f.values[v] = reg
	}
	return reg
}

func (f *function) addConst(c constant) int32 {
	c.reg = f.numRegs
	f.numRegs++
	f.fixed[c.reg] = true
	f.consts = append(f.consts, c)
	return c.reg
}

// paramReg returns a register that holds a kernel parameter, or a part of one.
func (f *function) paramReg(off int, t ptx.Type) int32 {
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

// constant reports whether no instruction writes the register.
func (f *function) constant(reg int32) bool { return f.fixed[reg] }

// find returns the variable of that name, and its space.
func (f *function) find(name string) (*ptx.Var, ptx.Space) {
	if a := f.args[name]; a != nil {
		for _, v := range f.src.Params {
			if v.Name == name {
				return v, ptx.ParamSpace
			}
		}
	}
	if v := f.vars[name]; v != nil {
		return v, v.Space
	}
	if v := f.program.module.Var(name); v != nil {
		return v, v.Space
	}
	return nil, ptx.Generic
}

func (f *function) useShared(v *ptx.Var) {
	for _, u := range f.shared {
		if u == v {
			return
		}
	}
	f.shared = append(f.shared, v)
}

// addCallee records that f calls fn or takes its address. nil is for a call through a pointer.
func (f *function) addCallee(fn *function) {
	if _, ok := f.called[fn]; ok {
		return
	}
	if f.called == nil {
		f.called = map[*function]bool{}
	}
	f.called[fn] = false
	f.callees = append(f.callees, fn)
}

// addCall records that f calls fn by name.
func (f *function) addCall(fn *function) {
	f.addCallee(fn)
	if !f.called[fn] {
		f.called[fn] = true
		f.direct = append(f.direct, fn)
	}
}

// calleePlaces returns where parameters or results of the function are in its frame.
func (f *function) calleePlaces(vars []*ptx.Var) []place {
	out := make([]place, len(vars))
	for i, v := range vars {
		if v.Space == ptx.RegSpace {
			out[i] = place{reg: f.regs[v.Name].index, isReg: true, size: v.Size()}
		} else {
			out[i] = place{local: f.local[v.Name], size: v.Size()}
		}
	}
	return out
}

// frameBytes returns the size of a frame in memory.
func (f *function) frameBytes() int { return int(f.numRegs) * (warpSize*8 + 16) }

func (f *function) address() uint64 { return codeWindow + uint64(f.id)*codeStep }

// opText returns the opcode with its modifiers.
func opText(in *ptx.Instr) string {
	if len(in.Mods) == 0 {
		return in.Op
	}
	return in.Op + "." + strings.Join(in.Mods, ".")
}
