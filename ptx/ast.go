package ptx

import "fmt"

// Module is one PTX file.
type Module struct {
	File        string // name for messages
	Version     Version
	Target      []string // "sm_75", "texmode_unified", ...
	AddressSize int      // 32 or 64; see Parse for a file that does not say
	Vars        []*Var   // module scope: .global, .const, .shared
	Funcs       []*Func  // entries and functions, in order; declarations have Declared set
	Files       map[int]string
	Aliases     map[string]string // .alias: name -> the function that it stands for
	Source      string            // the text, for messages

	vars      map[string]*Var
	funcs     map[string]*Func
	registers []*Var // module scope; PTX without functions that call has it
}

// Version is that of the PTX ISA.
type Version struct{ Major, Minor int }

// Pos is a place in the source, both from 1.
type Pos struct{ Line, Col int }

func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Col) }

// Linkage of a name.
type Linkage uint8

const (
	Local Linkage = iota // no directive
	Visible
	Weak
	Extern
	Common
)

// Space is a state space.
type Space uint8

const (
	Generic Space = iota
	RegSpace
	ParamSpace
	GlobalSpace
	ConstSpace
	SharedSpace
	LocalSpace
)

// Type is a fundamental type.
type Type uint8

const (
	NoType Type = iota
	U8
	U16
	U32
	U64
	S8
	S16
	S32
	S64
	B8
	B16
	B32
	B64
	B128
	F16
	F16x2
	BF16
	BF16x2
	F32
	F64
	Pred
	TexRef // opaque: .texref, and variables of the old .tex space
	SamplerRef
	SurfRef
)

// Var is a declared variable, register or parameter.
type Var struct {
	Name    string
	Pos     Pos
	Linkage Linkage
	Space   Space
	Type    Type
	Vec     int     // 0 or 1 scalar, 2, 4
	Dims    []int   // of an array; -1 for an extent left open
	Count   int     // registers: %r<7> declares Count 7 of them named %r0..%r6; else 0
	Align   int     // bytes; natural when the source says nothing
	Managed bool    // .attribute(.managed)
	Init    []byte  // nil without an initialiser; shorter than the variable where the rest is zero
	Relocs  []Reloc // addresses of symbols within Init

	Ptr      bool  // a parameter marked .ptr: it holds an address
	PtrSpace Space // of what it points to; Generic when the source says nothing
	PtrAlign int   // of what it points to, in bytes; 0 when the source says nothing
}

// Reloc is a symbol's address stored within an initialiser.
type Reloc struct {
	Offset  int // bytes into Init
	Size    int // 4 or 8; any for one piece of an address, as in 0xFF00(symbol)
	Shift   int // bits by which the address is shifted right before it is cut to Size: 8 for 0xFF00(symbol)
	Symbol  string
	Addend  int64
	Generic bool // generic(symbol): the address in the generic space
}

// Func is an entry (a kernel) or a device function.
//
// Scopes are gone: a variable or label of a nested scope whose name is taken
// already, in the function or by the module, is renamed to name + "$" + number
// (a range of registers to name + "$" + number + "$"), and so is every use of it.
// Registers that the module declares outside of functions, as old PTX may, are
// Vars of every entry.
type Func struct {
	Name     string
	Pos      Pos
	Entry    bool
	Declared bool // no body
	Linkage  Linkage
	Returns  []*Var
	Params   []*Var
	Vars     []*Var // declared in the body, registers too; every name is unique in the function (see below)
	Body     []Instr
	Labels   map[string]int // index into Body of the instruction after the label
	MaxNTID  [3]int         // .maxntid; zero when absent
	ReqNTID  [3]int
	Tables   map[string][]string // .branchtargets and .calltargets: label -> names
	Protos   map[string]*Func    // .callprototype: label -> signature

	MinBlocks      int    // .minnctapersm (and the older .maxnctapersm)
	MaxRegs        int    // .maxnreg
	Cluster        [3]int // .reqnctapercluster
	MaxClusterRank int    // .maxclusterrank
	NoReturn       bool   // .noreturn

	hasParams bool  // a parameter list was given, even an empty one
	names     names // unique names of Returns, Params and Vars
}

// Instr is an instruction as written, its names resolved.
type Instr struct {
	Pos      Pos
	Loc      Loc      // in the source that this was compiled from
	Guard    string   // predicate register, "" for none
	Negate   bool     // @!p
	Op       string   // base opcode: "ld", "add", "setp"
	Mods     []string // what follows its dots, in order: "global", "v4", "f32"; "to", "rn", "ftz", ... Shared between instructions: do not change
	Operands []Operand
}

// Loc is a place in the source that PTX was compiled from, as the last .loc
// before an instruction says. It is zero where there is none.
type Loc struct {
	File, Line, Column int // File is an index of Module.Files
}

// Operand is one of [Reg], [Imm], [Float], [Sym], [Mem], [Vec], [Pair], [List] or [Sink].
type Operand interface{ operand() }

type (
	// Reg is a register, or a special register such as %tid.x or %laneid.
	// A vector register's component (%v.x) has Comp 'x', 'y', 'z' or 'w';
	// a special register's is a part of Name ("%tid.x") and Comp stays 0.
	Reg struct {
		Name    string
		Comp    byte
		Special bool
		Negate  bool   // "!p" as a predicate operand
		Minus   bool   // "-r" of a video instruction
		Sel     string // part of a video operand: "b0".."b3", "h0", "h1"
	}
	// Imm is an integer constant: 64 bits, two's complement.
	Imm struct{ Value uint64 }
	// Float is a floating constant by its bits, 32 (0f) or 64 (0d, decimal).
	Float struct {
		Bits  uint64
		Width int
	}
	// Sym is the address of a variable or function, or a label of a branch.
	Sym struct {
		Name   string
		Offset int64
	}
	// Mem is [base+offset]: Base is a register, a symbol, or "" for an absolute address.
	// Args follow a comma within the brackets: [texture, sampler, {x, y}].
	Mem struct {
		Base   string
		IsReg  bool
		Offset int64
		Args   []Operand
	}
	// Vec is {a, b, ...}.
	Vec struct{ Elems []Operand }
	// Pair is p|q: two destinations.
	Pair struct{ First, Second Operand }
	// List is (a, b, ...), the arguments or results of a call.
	List struct{ Elems []Operand }
	// Sink is _, a destination that is not wanted.
	Sink struct{}
)

func (Reg) operand()   {}
func (Imm) operand()   {}
func (Float) operand() {}
func (Sym) operand()   {}
func (Mem) operand()   {}
func (Vec) operand()   {}
func (Pair) operand()  {}
func (List) operand()  {}
func (Sink) operand()  {}

// Func is the function or entry of that name, nil if there is none: its
// definition where the module has one, the aliased function of an alias.
func (m *Module) Func(name string) *Func { return m.funcs[name] }

// Var is the module-scope variable of that name, nil if there is none: its
// definition where the module has one.
func (m *Module) Var(name string) *Var { return m.vars[name] }

// Entries are the kernels, in order.
func (m *Module) Entries() []*Func {
	var out []*Func
	for _, f := range m.Funcs {
		if f.Entry && !f.Declared {
			out = append(out, f)
		}
	}
	return out
}
