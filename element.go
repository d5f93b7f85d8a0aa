package ferry

import (
	"fmt"
	"math"
	"reflect"
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// element is what Ferry needs to know of an element type.
type element struct {
	name string
	size uintptr
	err  error // why it cannot be in a buffer
}

// elements has an element by reflect.Type.
var elements sync.Map

// elementOf is that of T; the error says why T cannot be in a buffer.
func elementOf[T any]() (*element, error) {
	e := elementByType(reflect.TypeFor[T]())
	return e, e.err
}

// elementByType is the element of a type, looked at once.
func elementByType(t reflect.Type) *element {
	if e, ok := elements.Load(t); ok {
		return e.(*element)
	}
	e := &element{name: t.String(), size: t.Size()}
	if path := pointerIn(t, ""); path != "" {
		e.err = refuse("elements of type %v hold Go pointers (%s), which mean nothing to a GPU and would hide from the garbage collector: use numbers, or arrays and structs of numbers", t, path)
	}
	kept, _ := elements.LoadOrStore(t, e)
	return kept.(*element)
}

// bytes is the size of n elements.
func (e *element) bytes(n int) (uintptr, error) {
	if n < 0 {
		return 0, refuse("%d elements of %s: the number cannot be negative", n, e.name)
	}
	if e.size != 0 && uintptr(n) > math.MaxInt/e.size {
		return 0, &refusal{cu.ErrorOutOfMemory, fmt.Sprintf("%d elements of %s, %d bytes each, are more bytes than an address can count", n, e.name, e.size)}
	}
	return uintptr(n) * e.size, nil
}

// pointerIn finds something in t that the garbage collector must see: a path
// to it and its type, "" if there is nothing.
func pointerIn(t reflect.Type, path string) string {
	switch t.Kind() {
	case reflect.Array:
		if t.Len() == 0 {
			return ""
		}
		return pointerIn(t.Elem(), path+"[0]")
	case reflect.Struct:
		for i := range t.NumField() {
			if found := pointerIn(t.Field(i).Type, path+"."+t.Field(i).Name); found != "" {
				return found
			}
		}
		return ""
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return ""
	}
	if path == "" {
		return "it is one"
	}
	return path + " is " + t.String()
}
