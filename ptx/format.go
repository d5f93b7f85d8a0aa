package ptx

import (
	"fmt"
	"strconv"
)

// String returns the instruction as PTX writes it, without the semicolon.
func (in *Instr) String() string {
	b := make([]byte, 0, 64)
	if in.Guard != "" {
		b = append(b, '@')
		if in.Negate {
			b = append(b, '!')
		}
		b = append(append(b, in.Guard...), ' ')
	}
	b = append(b, in.Op...)
	for _, m := range in.Mods {
		b = append(append(b, '.'), m...)
	}
	if len(in.Operands) > 0 {
		b = appendOperands(append(b, ' '), in.Operands)
	}
	return string(b)
}

func appendOperands(b []byte, list []Operand) []byte {
	for i, o := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendOperand(b, o)
	}
	return b
}

func appendOperand(b []byte, o Operand) []byte {
	switch o := o.(type) {
	case Reg:
		return appendReg(b, o)
	case Imm:
		return strconv.AppendInt(b, int64(o.Value), 10)
	case Float:
		if o.Width == 32 {
			return fmt.Appendf(b, "0f%08X", o.Bits)
		}
		return fmt.Appendf(b, "0d%016X", o.Bits)
	case Sym:
		return appendOffset(append(b, o.Name...), o.Offset)
	case Mem:
		return appendMem(b, o)
	case Vec:
		return append(appendOperands(append(b, '{'), o.Elems), '}')
	case List:
		return append(appendOperands(append(b, '('), o.Elems), ')')
	case Pair:
		return appendOperand(append(appendOperand(b, o.First), '|'), o.Second)
	case Sink:
		return append(b, '_')
	}
	return b
}

func appendReg(b []byte, r Reg) []byte {
	if r.Negate {
		b = append(b, '!')
	}
	if r.Minus {
		b = append(b, '-')
	}
	b = append(b, r.Name...)
	if r.Comp != 0 {
		b = append(b, '.', r.Comp)
	}
	if r.Sel != "" {
		b = append(append(b, '.'), r.Sel...)
	}
	return b
}

func appendMem(b []byte, m Mem) []byte {
	b = append(b, '[')
	if m.Base == "" {
		b = strconv.AppendInt(b, m.Offset, 10)
	} else {
		b = appendOffset(append(b, m.Base...), m.Offset)
	}
	if len(m.Args) > 0 {
		b = appendOperands(append(b, ", "...), m.Args)
	}
	return append(b, ']')
}

func appendOffset(b []byte, offset int64) []byte {
	if offset == 0 {
		return b
	}
	return strconv.AppendInt(append(b, '+'), offset, 10)
}
