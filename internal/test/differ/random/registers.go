package random

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
)

// bank is the registers of one kind.
type bank struct {
	prefix string
	count  int
	typ    string
	size   int // bytes of a register
	at     int // offset in a thread's record
}

// banks has the banks by their letters in templates.
var banks = map[byte]bank{
	'd': {"%d", 6, "b64", 8, 0},
	'g': {"%g", 4, "b64", 8, 48},
	'r': {"%r", 8, "b32", 4, 80},
	'f': {"%f", 6, "b32", 4, 112},
	'x': {"%x", 4, "b32", 4, 136},
	'h': {"%h", 4, "b16", 2, 152},
}

// order is the order of the banks in records.
const order = "dgrfxh"

const (
	predicatesAt = 160 // offset of the four predicates in a record
	Record       = 168 // bytes of a record; each thread has one
)

var prologue, epilogue = loadAndStore()

// loadAndStore returns the code before and after the statements of every program. It
// loads all registers, and stores them.
func loadAndStore() (before, after string) {
	var b, a strings.Builder
	b.WriteString("\t.reg .b64 %d<6>, %u0, %in, %out, %at;\n\t.reg .f64 %g<4>, %w0;\n\t.reg .b32 %r<8>, %x<4>, %t<2>, %c<3>, %bits, %i<4>;\n")
	b.WriteString("\t.reg .f32 %f<6>, %v0;\n\t.reg .b16 %h<4>, %s0;\n\t.reg .pred %p<4>, %q;\n")
	b.WriteString("\tmov.u32 %i0, %ctaid.x;\n\tmov.u32 %i1, %ntid.x;\n\tmov.u32 %i2, %tid.x;\n\tmad.lo.u32 %i3, %i0, %i1, %i2;\n")
	fmt.Fprintf(&b, "\tmul.wide.u32 %%at, %%i3, %d;\n\tld.param.u64 %%in, [in];\n\tadd.u64 %%in, %%in, %%at;\n", Record)
	fmt.Fprintf(&a, "\tld.param.u64 %%out, [out];\n\tadd.u64 %%out, %%out, %%at;\n")
	for _, letter := range []byte(order) {
		k := banks[letter]
		for i := range k.count {
			fmt.Fprintf(&b, "\tld.global.%s %s%d, [%%in+%d];\n", k.memory(), k.prefix, i, k.at+i*k.size)
			fmt.Fprintf(&a, "\tst.global.%s [%%out+%d], %s%d;\n", k.memory(), k.at+i*k.size, k.prefix, i)
		}
	}
	fmt.Fprintf(&b, "\tld.global.u32 %%bits, [%%in+%d];\n", predicatesAt)
	a.WriteString("\tmov.u32 %bits, 0;\n")
	for i := range 4 {
		fmt.Fprintf(&b, "\tand.b32 %%t0, %%bits, %d;\n\tsetp.ne.u32 %%p%d, %%t0, 0;\n", 1<<i, i)
		fmt.Fprintf(&a, "\tselp.b32 %%t0, %d, 0, %%p%d;\n\tor.b32 %%bits, %%bits, %%t0;\n", 1<<i, i)
	}
	fmt.Fprintf(&a, "\tst.global.u32 [%%out+%d], %%bits;\n\tst.global.u32 [%%out+%d], 0;\n\tret;\n}\n", predicatesAt, predicatesAt+4)
	return b.String(), a.String()
}

// memory returns the type for loads and stores of the bank's registers.
func (k bank) memory() string {
	switch k.prefix {
	case "%f":
		return "f32"
	case "%g":
		return "f64"
	}
	return k.typ
}

// fill makes an instruction from a template. For min and max it chooses two different
// registers. If both were the same, ptxas would use a move, which treats NaN in another
// way.
func (g *generator) fill(t string) string {
	var s strings.Builder
	var last string
	for i := 0; i < len(t); i++ {
		switch t[i] {
		case '<':
			end := i + strings.IndexByte(t[i:], '>')
			choices := strings.Split(t[i+1:end], "|")
			s.WriteString(choices[g.r.IntN(len(choices))])
			i = end
		case '$':
			i++
			operand := g.operand(t[i])
			for strings.HasPrefix(t, "<min|max>") && t[i] >= 'a' && operand == last {
				operand = g.operand(t[i])
			}
			if t[i] >= 'a' {
				last = operand
			}
			s.WriteString(operand)
		default:
			s.WriteByte(t[i])
		}
	}
	return s.String()
}

// operand returns a random operand for $LETTER.
func (g *generator) operand(letter byte) string {
	switch letter {
	case 'p', 'P':
		return fmt.Sprintf("%%p%d", g.r.IntN(4))
	case 'i', 'j':
		if g.r.IntN(3) > 0 {
			return g.operand("rd"[letter-'i'])
		}
		return fmt.Sprint([]int32{0, 1, -1, 2, 3, 8, 16, 24, 31, 32, 33, 63, 64, 255, 0x7fff, 0x3210, 1<<31 - 1, -1 << 31, g.r.Int32() >> g.r.IntN(31)}[g.r.IntN(19)])
	case 'n':
		return fmt.Sprint(g.r.IntN(32))
	case 'b':
		return fmt.Sprint(g.r.IntN(256))
	case 'q':
		return []string{".rn", ".rn", ".rz", ".rm", ".rp"}[g.r.IntN(5)]
	}
	k := banks[letter|32]
	return fmt.Sprintf("%s%d", k.prefix, g.r.IntN(k.count))
}

// Inputs returns records for n threads with numbers of every magnitude and edge cases.
func Inputs(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 12))
	all := make([]byte, n*Record)
	for i := range n {
		b := all[i*Record:]
		for _, letter := range []byte(order) {
			k := banks[letter]
			for j := range k.count {
				var word [8]byte
				binary.LittleEndian.PutUint64(word[:], value(r, letter))
				copy(b[k.at+j*k.size:][:k.size], word[:])
			}
		}
		binary.LittleEndian.PutUint32(b[predicatesAt:], r.Uint32N(16))
	}
	return all
}

// Edge cases, for which instructions were wrong.
var (
	edges32 = []uint64{0, 1, 2, 31, 32, 0xffffffff, 0x7fffffff, 0x80000000, 0x80000001, 0x55555555, 0xffff, 0xff}
	edges64 = []uint64{0, 1, 63, 64, 1<<64 - 1, 1<<63 - 1, 1 << 63, 1 << 32, 1<<32 - 1, 0x5555555555555555}
	edgesF  = []uint64{
		0, 1 << 31, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345, 1, 0x80000001, 0x007fffff, 0x00800000,
		0x7f7fffff, 0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000, 0x3f000000, 0x3fc00000, 0x40200000, 0x33800000, 0x477fe000, 0x477ff000, 0x387fc000, 0x33000001,
	}
	edgesG = []uint64{
		0, 1 << 63, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7ff0000000000001, 0xfff8123456789abc, 1,
		0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0x43e0000000000000, 0x41e0000000000000, 0x3fe0000000000000, 0x36a0000000000000, 0x47efffffefffffff,
	}
	edgesH = []uint64{0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xfe11, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0x7f80, 0x7fc0, 0xff81, 0x3f80}
)

// value returns a random value for a register of a bank.
func value(r *rand.Rand, letter byte) uint64 {
	edge := r.IntN(4) == 0
	pick := func(from []uint64) uint64 { return from[r.IntN(len(from))] }
	switch letter {
	case 'd':
		if edge {
			return pick(edges64)
		}
		return r.Uint64() >> r.IntN(64)
	case 'g':
		switch {
		case edge:
			return pick(edgesG)
		case r.IntN(2) == 0: // near one, so that the operands of a sum have similar magnitudes
			return uint64(0x3f0+r.IntN(32))<<52 | r.Uint64()>>12 | uint64(r.IntN(2))<<63
		}
		return r.Uint64()
	case 'f':
		switch {
		case edge:
			return pick(edgesF)
		case r.IntN(2) == 0:
			return uint64(112+r.IntN(32))<<23 | uint64(r.Uint32()>>9) | uint64(r.IntN(2))<<31
		}
		return uint64(r.Uint32())
	case 'h':
		if edge {
			return pick(edgesH)
		}
		return r.Uint64()
	case 'x':
		return value(r, 'h')&0xffff | value(r, 'h')<<16
	}
	if edge {
		return pick(edges32)
	}
	return uint64(r.Uint32() >> r.IntN(32))
}

// Registers formats the registers in a record.
func Registers(record []byte) string {
	var s strings.Builder
	for _, letter := range []byte(order) {
		k := banks[letter]
		for i := range k.count {
			var word [8]byte
			copy(word[:], record[k.at+i*k.size:][:k.size])
			fmt.Fprintf(&s, "%s%d=%0*x ", k.prefix, i, 2*k.size, binary.LittleEndian.Uint64(word[:]))
		}
	}
	fmt.Fprintf(&s, "predicates=%04b", record[predicatesAt])
	return s.String()
}

// Different formats the registers in which two records differ, with both values.
func Different(a, b []byte) string {
	x, y := strings.Fields(Registers(a)), strings.Fields(Registers(b))
	var s []string
	for i := range x {
		if x[i] != y[i] {
			_, v, _ := strings.Cut(y[i], "=")
			s = append(s, x[i]+"|"+v)
		}
	}
	return strings.Join(s, " ")
}
