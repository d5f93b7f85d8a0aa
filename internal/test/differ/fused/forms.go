package fused

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/measure/runner"
	"github.com/ferrygpu/ferry/internal/test/differ"
)

//go:embed testdata/forms.txt
var formsText string

// Type is the type of the numbers of a kernel.
type Type struct {
	Name     string // as a modifier
	register string
	memory   string
	size     int
	halves   bool // it has two numbers
}

// Types is all types that are measured.
var Types = []Type{
	{"f32", ".f32", "f32", 4, false}, {"ftz.f32", ".f32", "f32", 4, false}, {"f64", ".f64", "f64", 8, false},
	{"f16", ".b16", "b16", 2, false}, {"f16x2", ".b32", "b32", 4, true}, {"ftz.f16", ".b16", "b16", 2, false},
	{"bf16", ".b16", "b16", 2, false}, {"bf16x2", ".b32", "b32", 4, true},
}

// Form is one kernel: a few instructions on the inputs x, y, z, w, u and v.
type Form struct {
	Name    string
	Type    Type
	Outputs []string // the registers that are stored
	Body    string
}

// Forms returns all forms for a type.
func Forms(t Type) []Form {
	var all []Form
	for line := range strings.Lines(formsText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		part := strings.SplitN(strings.TrimSpace(line), " | ", 4)
		if types := strings.Fields(part[1]); types[0] != "*" && !slices.Contains(types, t.Name) {
			continue
		}
		all = append(all, Form{Name: part[0], Type: t, Outputs: strings.Fields(part[2]), Body: t.expand(part[3])})
	}
	return all
}

// expand replaces T by the type, and M by the type of moves, loads and stores.
func (t Type) expand(body string) string {
	body = strings.NewReplacer(".T ", "."+t.Name+" ", ".M ", "."+t.memory+" ").Replace(body)
	var s strings.Builder
	for part := range strings.SplitSeq(body, ";") {
		if part = strings.TrimSpace(part); !strings.HasSuffix(part, ":") {
			part += ";"
		}
		s.WriteString(" " + part)
	}
	return s.String()
}

// Inputs and slots: thread i has its number of slot k at byte k*slotBytes + 8*i.
const (
	threads   = 32
	slotBytes = 8 * threads
	slots     = 16
	inputs    = 6
)

const registers = `	.reg .u64 in,out,at,a64,b64; .reg .b32 i,j,k,b32a,b32b; .reg .pred m,n,l;
	.reg .f32 f32a; .reg .f64 f64a; .reg %s x,y,z,w,u,v,p,q,r,s,t,o,e,f,g,h,c<40>,d<60>;
	ld.param.u64 in,[pin]; ld.param.u64 out,[pout]; mov.u32 i,%%tid.x; mul.wide.u32 at,i,8; add.u64 in,in,at; add.u64 out,out,at;
	and.b32 j,i,1; setp.ne.u32 m,j,0; and.b32 j,i,2; setp.ne.u32 n,j,0;
`

// kernel returns the PTX of a form.
func (f *Form) kernel(name string) string {
	var s strings.Builder
	fmt.Fprintf(&s, ".visible .entry %s(.param .u64 pin, .param .u64 pout) {\n"+registers, name, f.Type.register)
	for k := range inputs {
		fmt.Fprintf(&s, "\tld.global.%s %c,[in+%d];\n", f.Type.memory, "xyzwuv"[k], k*slotBytes)
	}
	fmt.Fprintf(&s, "\t%s\n", f.Body)
	for k, r := range f.Outputs {
		fmt.Fprintf(&s, "\tst.global.%s [out+%d],%s;\n", f.Type.memory, k*slotBytes, r)
	}
	return s.String() + "\tret;\n}\n"
}

// Module returns the PTX of forms of one type, for a target. The kernels are k0, k1 and so on.
func Module(forms []Form, target string) string {
	var s strings.Builder
	fmt.Fprintf(&s, ".version 8.0\n.target %s\n.address_size 64\n", target)
	for i := range forms {
		s.WriteString(forms[i].kernel(fmt.Sprint("k", i)))
	}
	return s.String()
}

// launch returns the launch of kernel i of a module.
func launch(i int) *differ.Case {
	const words = slots * slotBytes / 8
	return &differ.Case{Kernel: fmt.Sprint("k", i), Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: threads},
		Args: []differ.Arg{{Type: differ.U64, N: words, Input: true}, {Type: differ.U64, N: words}}}
}

// Numbers returns the inputs of all threads: numbers whose products and sums are rounded, and
// edge cases in the last six threads.
func Numbers(t Type) []byte {
	r := rand.New(rand.NewPCG(31, 3))
	b := make([]byte, slots*slotBytes)
	for k := range inputs {
		for i := range threads {
			at := b[k*slotBytes+8*i:]
			put(at, t, number(r, t, i))
			if t.halves {
				put(at[2:], t, number(r, t, i))
			}
		}
	}
	return b
}

// number returns a number for thread i.
func number(r *rand.Rand, t Type, i int) float64 {
	if i < threads-6 {
		return math.Copysign(0.5+1.5*r.Float64(), r.Float64()-0.5)
	}
	exponents := map[string][2]int{"f64": {1023, -1074}, "f32": {127, -149}, "f16": {15, -24}, "bf16": {127, -133}}
	e := exponents[strings.TrimSuffix(strings.TrimPrefix(t.Name, "ftz."), "x2")]
	large := []float64{math.Ldexp(1.5, e[0]), math.Ldexp(-1.25, e[0]), math.Ldexp(1.25, e[0]/2), math.Ldexp(-1, e[0]/2+1)}
	small := []float64{math.Ldexp(1, e[1]), math.Ldexp(-3, e[1]), math.Ldexp(1.75, e[1]/2), math.Ldexp(-1.25, e[1]/2), math.Ldexp(1, 1-e[0]), math.Ldexp(-1.25, 1-e[0])}
	odd := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1)}
	from := [][]float64{append(large, 1, -1), append(small, 1), small, odd, slices.Concat(large, small, odd), slices.Concat(large, small, odd)}[i-(threads-6)]
	return from[r.IntN(len(from))]
}

// put stores a number in the format of a type.
func put(b []byte, t Type, v float64) {
	switch {
	case strings.HasSuffix(t.Name, "f64"):
		binary.LittleEndian.PutUint64(b, math.Float64bits(v))
	case strings.HasSuffix(t.Name, "f32"):
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(v)))
	case strings.Contains(t.Name, "bf16"):
		binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(float32(v))>>16))
	default:
		binary.LittleEndian.PutUint16(b, uint16(runner.F16.FromFloat(v)))
	}
}
