package ferry

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/ptx"
)

// argType is what Launch needs to know of an argument's type.
type argType struct {
	name  string
	size  int // bytes of the parameter
	align int
	class argClass
	err   error
}

// argClass tells what must not be mixed up.
type argClass uint8

const (
	argBytes   argClass = iota // struct or array
	argInteger                 // bool and addresses too
	argFloat
	argMemory // a buffer
)

var (
	argTypes   sync.Map // of *argType by reflect.Type
	regionType = reflect.TypeFor[region]()
	noArgument = &argType{name: "nil", err: refuse("nil is no argument: pass a buffer, or cu.DevicePtr(0) for a null pointer")}
)

// argTypeOf looks at an argument's type, once for each type.
func argTypeOf(arg any) *argType {
	t := reflect.TypeOf(arg)
	if t == nil {
		return noArgument
	}
	if a, ok := argTypes.Load(t); ok {
		return a.(*argType)
	}
	a, _ := argTypes.LoadOrStore(t, newArgType(t))
	return a.(*argType)
}

func newArgType(t reflect.Type) *argType {
	a := &argType{name: t.String(), size: int(t.Size()), align: max(t.Align(), 1)}
	switch k := t.Kind(); {
	case isMemory(t):
		a.class, a.size, a.align = argMemory, 8, 8
	case k == reflect.Struct || k == reflect.Array:
		a.class = argBytes
	case k == reflect.Float32 || k == reflect.Float64:
		a.class = argFloat
	case k >= reflect.Bool && k <= reflect.Uintptr:
		a.class = argInteger
	case k == reflect.Complex64 || k == reflect.Complex128:
		a.class = argBytes
	case k == reflect.Slice:
		a.err = refuse("a %v cannot be used by kernels: Register it, or Copy it to a buffer", t)
	default:
		a.err = refuse("a %v cannot be an argument: pass a buffer, a number, or a struct or array of numbers", t)
	}
	if e := elementByType(t); a.err == nil && a.class != argMemory && e.err != nil {
		a.err = refuse("a %v cannot be an argument: it holds Go pointers", t)
	}
	return a
}

// isMemory says whether t is a pointer to one of this package's buffers.
func isMemory(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || t.Elem().PkgPath() != regionType.PkgPath() {
		return false
	}
	e := t.Elem()
	return e.NumField() == 1 && e.Field(0).Type == regionType
}

// fits says why an argument cannot be a parameter.
func (t *argType) fits(p *ptx.Param) error {
	switch {
	case t.err != nil:
		return t.err
	case t.size != p.Size:
		return refuse("got %s, %s%s", t.name, sizeText(uintptr(t.size)), wanted(p))
	case t.class == argFloat && integerParam(p.Type), t.class != argFloat && t.class != argBytes && floatParam(p.Type):
		return refuse("got %s%s", t.name, wanted(p))
	}
	return nil
}

func integerParam(t ptx.Type) bool { return t >= ptx.U8 && t <= ptx.S64 }

func floatParam(t ptx.Type) bool { return t == ptx.F32 || t == ptx.F64 }

// goTypes is what to pass for a parameter.
var goTypes = map[ptx.Type]string{
	ptx.U8: "uint8", ptx.U16: "uint16", ptx.U32: "uint32", ptx.U64: "uint64 or a buffer",
	ptx.S8: "int8", ptx.S16: "int16", ptx.S32: "int32", ptx.S64: "int64",
	ptx.F16: "uint16", ptx.F32: "float32", ptx.F64: "float64",
	ptx.B16: "uint16", ptx.B32: "uint32 or float32", ptx.B64: "uint64, float64 or a buffer",
}

// wanted is what to do instead, as the end of a message.
func wanted(p *ptx.Param) string {
	name := goTypes[p.Type]
	if name == "" || p.Size != p.Type.Size() {
		return fmt.Sprintf(", want %s", sizeText(uintptr(p.Size)))
	}
	return ", want " + strings.TrimSpace(name)
}
