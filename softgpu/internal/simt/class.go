package simt

import (
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// Class groups the instructions that take a multiprocessor equally long.
type Class uint8

const (
	Plain          Class = iota // one 32-bit operation
	Wide                        // a 64-bit integer operation, which is two
	WideProduct                 // a 64-bit product
	Compare                     // writes a predicate
	Special                     // one operation of the special function unit, such as rcp.approx.ftz.f32
	Root                        // an approximate root or logarithm that also handles denormals
	Quotient                    // an approximate division
	ExactQuotient               // a rounded division of f32
	ExactRoot                   // a rounded root or reciprocal of f32
	Divide                      // an integer division of 32 bits
	DivideWide                  // an integer division of 64 bits
	Double                      // one f64 operation
	DoubleQuotient              // an f64 division
	DoubleRoot                  // an f64 root or reciprocal
	Convert                     // between types of up to 32 bits
	ConvertWide                 // from or to a type of 64 bits
	Exchange                    // between the lanes of a warp
	Barrier                     // of a block
	Matrix                      // a product of small matrices
	NumClasses
)

// classOf returns the class of an instruction.
func classOf(in *ptx.Instr) Class {
	t := lastType(in)
	approximate := slices.Contains(in.Mods, "approx") || slices.Contains(in.Mods, "full")
	switch in.Op {
	case "setp", "testp", "isspacep":
		return Compare
	case "div", "rem":
		return divideClass(t, approximate)
	case "sqrt", "rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh":
		return rootClass(in, t, approximate)
	case "cvt":
		return convertClass(in)
	case "shfl", "vote", "match", "redux", "ldmatrix", "movmatrix":
		return Exchange
	case "bar", "barrier":
		return Barrier
	case "mma", "wmma":
		return Matrix
	case "popc", "clz", "bfind", "brev":
		return Special
	case "mul", "mad":
		return productClass(in, t)
	case "ld", "st", "mov", "bra", "atom", "red":
		return Plain
	}
	switch {
	case t == ptx.F64:
		return Double
	case t.Size() == 8 && integral(t):
		return Wide
	}
	return Plain
}

// lastType returns the last type among the modifiers: that of the sources, if there are two.
func lastType(in *ptx.Instr) ptx.Type {
	t := ptx.NoType
	for _, m := range in.Mods {
		if x, ok := ptx.ParseType(m); ok {
			t = x
		}
	}
	return t
}

func divideClass(t ptx.Type, approximate bool) Class {
	switch {
	case t == ptx.F64:
		return DoubleQuotient
	case t.IsFloat() && approximate:
		return Quotient
	case t.IsFloat():
		return ExactQuotient
	case t.Size() == 8:
		return DivideWide
	}
	return Divide
}

func rootClass(in *ptx.Instr, t ptx.Type, approximate bool) Class {
	switch {
	case t == ptx.F64:
		return DoubleRoot
	case in.Op == "sin" || in.Op == "cos" || slices.Contains(in.Mods, "ftz") || t.Size() == 2:
		return Special
	case approximate || in.Op == "rsqrt" || in.Op == "tanh":
		return Root
	}
	return ExactRoot
}

// convertClass finds that a conversion between integers of up to 32 bits is one ordinary
// operation, or none.
func convertClass(in *ptx.Instr) Class {
	wide, float := false, false
	for _, m := range in.Mods {
		if t, ok := ptx.ParseType(m); ok {
			wide = wide || t.Size() == 8
			float = float || t.IsFloat()
		}
	}
	switch {
	case !float:
		return Plain
	case wide:
		return ConvertWide
	}
	return Convert
}

func productClass(in *ptx.Instr, t ptx.Type) Class {
	switch {
	case t == ptx.F64:
		return Double
	case t.Size() == 8 && integral(t):
		return WideProduct
	}
	return Plain
}

// uncachedLoad reports whether a load does not use the cache of its multiprocessor.
func uncachedLoad(in *ptx.Instr) bool {
	return slices.ContainsFunc(in.Mods, func(m string) bool {
		return m == "cg" || m == "cv" || strings.HasPrefix(m, "L1::no_allocate")
	})
}
