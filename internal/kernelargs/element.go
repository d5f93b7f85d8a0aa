package kernelargs

import (
	"math"
	"reflect"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Element describes the element type of a buffer.
type Element struct {
	Name string
	Size uintptr
	err  error // why the type cannot be in a buffer
}

// elements caches the *Element of each reflect.Type.
var elements sync.Map

// ElementOf returns the description of T. The error says why T cannot be in a buffer.
func ElementOf[T any]() (*Element, error) {
	t := reflect.TypeFor[T]()
	if e, ok := elements.Load(t); ok {
		return e.(*Element), e.(*Element).err
	}
	e := &Element{Name: t.String(), Size: t.Size()}
	if path := PointerIn(t); path != "" {
		e.err = refusal.Invalid("elements of type %v hold Go pointers (%s), which a GPU cannot follow and the garbage collector would not see: use numbers, or arrays and structs of numbers", t, path)
	}
	elements.Store(t, e)
	return e, e.err
}

// Bytes returns the size of n elements.
func (e *Element) Bytes(n int) (uintptr, error) {
	if n < 0 {
		return 0, refusal.Invalid("%d elements of %s: the number cannot be negative", n, e.Name)
	}
	bytes, ok := refusal.Bytes(uintptr(n), e.Size)
	if !ok || bytes > math.MaxInt {
		return 0, refusal.New(cu.ErrorOutOfMemory, "%d elements of %s, %d bytes each, are more bytes than an address can count", n, e.Name, e.Size)
	}
	return bytes, nil
}
