package ptx

import "fmt"

// Module is one PTX file.
type Module struct {
	File        string // name for messages
	Version     Version
	Target      []string // "sm_75", "texmode_unified", ...
	AddressSize int      // 32 or 64; Parse explains what a file without .address_size gets
	AddressPos  Pos      // of .address_size, zero without it
	Vars        []*Var   // module scope: .global, .const, .shared
	Funcs       []*Func  // entries and functions, in order; declarations have Declared set
	Files       map[int]string
	Aliases     map[string]string // .alias: name -> the function that it stands for
	Source      string            // the text, for messages

	vars      map[string]*Var
	funcs     map[string]*Func
	registers []*Var // of module scope; old PTX has them
}

// Version is the version of the PTX ISA.
type Version struct{ Major, Minor int }

// Pos is a place in the source. Line and column count from 1.
type Pos struct{ Line, Col int }

func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Col) }

// Linkage is the linkage of a name.
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
	Dims    []int   // of an array; -1 for an open extent
	Count   int     // for registers: %r<7> declares Count 7 of them, named %r0..%r6; otherwise 0
	Align   int     // bytes; the natural alignment if the source gives none
	Managed bool    // .attribute(.managed)
	Init    []byte  // nil without an initialiser; may be shorter than the variable, the rest is zero
	Relocs  []Reloc // addresses of symbols within Init

	Ptr      bool  // a parameter marked .ptr, which holds an address
	PtrSpace Space // space that it points to; Generic if the source gives none
	PtrAlign int   // alignment in bytes of what it points to; 0 if the source gives none
}

// Reloc is the address of a symbol in an initialiser.
type Reloc struct {
	Offset  int // bytes from the start of Init
	Size    int // 4 or 8; other sizes for one piece of an address, as in 0xFF00(symbol)
	Shift   int // the address is shifted right by this many bits before it is cut to Size: 8 for 0xFF00(symbol)
	Symbol  string
	Addend  int64
	Generic bool // generic(symbol): the address in the generic space
}

// Func is an entry (a kernel) or a device function.
//
// Parse removes scopes. The name of a variable or label of a nested scope may be
// taken already, in the function or by the module. Then the variable and its uses are
// renamed to name + "$" + number, a range of registers to name + "$" + number + "$".
// Registers that the module declares outside of functions, as old PTX may, are Vars
// of every entry.
type Func struct {
	Name     string
	Pos      Pos
	Entry    bool
	Declared bool // no body
	Linkage  Linkage
	Returns  []*Var
	Params   []*Var
	Vars     []*Var // declared in the body, registers too; the names are unique in the function
	Body     []Instr
	Labels   map[string]int // index into Body of the instruction after the label
	MaxNTID  [3]int         // .maxntid; zero when absent
	ReqNTID  [3]int
	Tables   map[string][]string // .branchtargets and .calltargets: label -> names
	Protos   map[string]*Func    // .callprototype: label -> signature

	MinBlocks      int    // .minnctapersm (and the older .maxnctapersm)
	MaxRegs        int    // .maxnreg
	Cluster        [3]int // .reqnctapercluster
	ClusterPos     Pos    // of .reqnctapercluster, zero without it
	MaxClusterRank int    // .maxclusterrank
	NoReturn       bool   // .noreturn

	hasParams bool  // the source has a parameter list, which may be empty
	names     names // unique names of Returns, Params and Vars
	module    *Module
}

// Text returns the name of the file and the PTX text that have the function, for messages.
// The module of a function that [Link] returns has no text of its own.
func (f *Func) Text() (file, source string) {
	if f.module == nil {
		return "", ""
	}
	return f.module.File, f.module.Source
}

// Instr is an instruction as written, with its names resolved.
type Instr struct {
	Pos      Pos
	Loc      Loc      // in the source that the PTX was compiled from
	Guard    string   // predicate register, "" for none
	Negate   bool     // @!p
	Op       string   // base opcode: "ld", "add", "setp"
	Mods     []string // the dotted words after the opcode, in order: "global", "v4", "f32"; "to", "rn", "ftz", ... Shared between instructions: do not change
	Operands []Operand
}

// Loc is a place in the source that the PTX was compiled from: the last .loc before
// an instruction. It is zero if there is none.
type Loc struct {
	File, Line, Column int // File is an index of Module.Files
}

// Operand is one of [Reg], [Imm], [Float], [Sym], [Mem], [Vec], [Pair], [List] or [Sink].
type Operand interface{ operand() }

type (
	// Reg is a register, or a special register such as %tid.x or %laneid. A component
	// of a vector register (%v.x) has Comp 'x', 'y', 'z' or 'w'. The component of a
	// special register is part of Name ("%tid.x"), and Comp is 0.
	Reg struct {
		Name    string
		Comp    byte
		Special bool
		Negate  bool   // "!p" as a predicate operand
		Minus   bool   // "-r" of a video instruction
		Sel     string // part of the operand of a video instruction: "b0".."b3", "h0", "h1"
	}
	// Imm is an integer constant: 64 bits, two's complement.
	Imm struct{ Value uint64 }
	// Float is the bits of a floating constant: 32 (0f) or 64 (0d, decimal).
	Float struct {
		Bits  uint64
		Width int
	}
	// Sym is the address of a variable or function, or the label of a branch.
	Sym struct {
		Name   string
		Offset int64
	}
	// Mem is [base+offset]. Base is a register, a symbol, or "" for an absolute
	// address. Args are the operands after a comma within the brackets: [texture,
	// sampler, {x, y}].
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
	// Sink is _, a destination whose value is dropped.
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

// Func returns the function or entry of that name, nil if there is none. It returns
// the definition if the module has one. For an alias it returns the aliased function.
func (m *Module) Func(name string) *Func { return m.funcs[name] }

// Var returns the module-scope variable of that name, nil if there is none. It
// returns the definition if the module has one.
func (m *Module) Var(name string) *Var { return m.vars[name] }

// Entries returns the kernels in order.
func (m *Module) Entries() []*Func {
	var out []*Func
	for _, f := range m.Funcs {
		if f.Entry && !f.Declared {
			out = append(out, f)
		}
	}
	return out
}
