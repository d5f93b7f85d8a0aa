package kernelargs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/ptx"
)

// argType describes the type of an argument.
type argType struct {
	name  string
	size  int // bytes of the parameter
	align int
	class class
	err   error // why the type cannot be an argument

	padding *padding
}

// class is a class of types that must not be passed for parameters of other classes.
type class uint8

const (
	classBytes   class = iota // struct, array or complex number
	classInteger              // integer, bool or address
	classFloat
	classMemory // a pointer to a buffer
)

var noArgument = &argType{name: "nil", err: refusal.Invalid("nil cannot be an argument: pass a buffer, or cu.DevicePtr(0) for a null pointer")}

// types caches the *argType of each reflect.Type.
var types sync.Map

// typeOf returns the description of an argument's type. memory is the type of the only
// field of a buffer.
func typeOf(arg any, memory reflect.Type) *argType {
	t := reflect.TypeOf(arg)
	if t == nil {
		return noArgument
	}
	if a, ok := types.Load(t); ok {
		return a.(*argType)
	}
	a, _ := types.LoadOrStore(t, newArgType(t, memory))
	return a.(*argType)
}

func newArgType(t, memory reflect.Type) *argType {
	a := &argType{name: t.String(), size: int(t.Size()), align: max(t.Align(), 1)}
	switch k := t.Kind(); {
	case isMemory(t, memory):
		a.class, a.size, a.align = classMemory, 8, 8
		return a
	case k == reflect.Struct || k == reflect.Array:
		a.class, a.padding = classBytes, paddingOf(t)
	case k == reflect.Float32 || k == reflect.Float64:
		a.class = classFloat
	case k >= reflect.Bool && k <= reflect.Uintptr:
		a.class = classInteger
	case k == reflect.Complex64 || k == reflect.Complex128:
		a.class = classBytes
	case k == reflect.Slice:
		a.err = refusal.Invalid("a %v cannot be used by kernels: Register it, or Copy it to a buffer", t)
	default:
		a.err = refusal.Invalid("a %v cannot be an argument: pass a buffer, a number, or a struct or array of numbers", t)
	}
	if a.err == nil && PointerIn(t) != "" {
		a.err = refusal.Invalid("a %v cannot be an argument: it holds Go pointers", t)
	}
	return a
}

// isMemory reports whether t is a pointer to a struct that consists of a field of the type
// memory. A field without a size may stand before it.
func isMemory(t, memory reflect.Type) bool {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || t.Elem().PkgPath() != memory.PkgPath() {
		return false
	}
	e := t.Elem()
	last := e.NumField() - 1
	return last >= 0 && e.Size() == memory.Size() && e.Field(last).Type == memory
}

// PointerIn finds a Go pointer in a type, or a type that contains one, such as a string. It
// returns the path to it and its type, or "" if there is none.
func PointerIn(t reflect.Type) string {
	return find(t, "", func(k reflect.Kind) bool { return k == reflect.Invalid || k > reflect.Complex128 })
}

// BoolIn finds a bool in a type. It returns the path to it and its type, or "" if there is
// none.
func BoolIn(t reflect.Type) string {
	return find(t, "", func(k reflect.Kind) bool { return k == reflect.Bool })
}

// find returns the path to the first part of a type whose kind is wanted, and the type of
// that part, or "" if there is none. Structs and arrays are their parts.
func find(t reflect.Type, path string, wanted func(reflect.Kind) bool) string {
	switch t.Kind() {
	case reflect.Array:
		if t.Len() == 0 {
			return ""
		}
		return find(t.Elem(), path+"[0]", wanted)
	case reflect.Struct:
		for i := range t.NumField() {
			if found := find(t.Field(i).Type, path+"."+t.Field(i).Name, wanted); found != "" {
				return found
			}
		}
		return ""
	}
	switch {
	case !wanted(t.Kind()):
		return ""
	case path == "":
		return "the type itself"
	}
	return path + " is " + t.String()
}

// fits returns an error if an argument of this type cannot be passed for a parameter.
func (t *argType) fits(p *ptx.Param) error {
	switch {
	case t.err != nil:
		return t.err
	case t.size != p.Size:
		return refusal.Invalid("got %s, %s%s%s", t.name, refusal.Size(uintptr(t.size)), wanted(p), conversion(t.name, p))
	case t.class == classFloat && integerParam(p.Type), t.class != classFloat && t.class != classBytes && floatParam(p.Type):
		return refusal.Invalid("got %s%s%s", t.name, wanted(p), conversion(t.name, p))
	}
	return nil
}

// numbers are the types of Go that convert to each other.
var numbers = []string{"int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr", "float32", "float64"}

// conversion returns the end of a message about a number x of another type than a parameter:
// which conversion makes it fit. It proposes none that drops the fraction of a number. Compilers
// of CUDA C++ declare parameters of type int as unsigned, too.
func conversion(name string, p *ptx.Param) string {
	to, _, _ := strings.Cut(goTypes[p.Type], " ")
	switch {
	case !slices.Contains(numbers, name) || p.Size != p.Type.Size() || to == "" || p.Type == ptx.F16 || p.Type == ptx.B16:
		return ""
	case strings.HasPrefix(name, "float") && !strings.HasPrefix(to, "float"):
		return ""
	case strings.HasPrefix(to, "uint"):
		return fmt.Sprintf(": pass %s(x), or %s(x) for a signed parameter", to, to[1:])
	}
	return fmt.Sprintf(": pass %s(x)", to)
}

func integerParam(t ptx.Type) bool { return t >= ptx.U8 && t <= ptx.S64 }

func floatParam(t ptx.Type) bool { return t == ptx.F32 || t == ptx.F64 }

// goTypes says what to pass for a parameter.
var goTypes = map[ptx.Type]string{
	ptx.U8: "uint8", ptx.U16: "uint16", ptx.U32: "uint32", ptx.U64: "uint64 or a buffer",
	ptx.S8: "int8", ptx.S16: "int16", ptx.S32: "int32", ptx.S64: "int64",
	ptx.F16: "uint16", ptx.F32: "float32", ptx.F64: "float64",
	ptx.B16: "uint16", ptx.B32: "uint32 or float32", ptx.B64: "uint64, float64 or a buffer",
}

// wanted returns the end of a message, which says what to pass instead.
func wanted(p *ptx.Param) string {
	name := goTypes[p.Type]
	if name == "" || p.Size != p.Type.Size() {
		return fmt.Sprintf(", want %s", refusal.Size(uintptr(p.Size)))
	}
	return ", want " + name
}
