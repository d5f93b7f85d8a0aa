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
	Name  string
	Size  uintptr
	Align uintptr // of the type in Go, at least 1
	err   error   // why the type cannot be in a buffer

	padding *padding
}

// elements caches the *Element of each reflect.Type.
var elements sync.Map

// ElementOf returns the description of T. The error says why T cannot be in a buffer.
func ElementOf[T any]() (*Element, error) {
	t := reflect.TypeFor[T]()
	if e, ok := elements.Load(t); ok {
		return e.(*Element), e.(*Element).err
	}
	e := &Element{Name: t.String(), Size: t.Size(), Align: uintptr(t.Align()), err: CheckElement(t), padding: paddingOf(t)}
	elements.Store(t, e)
	return e, e.err
}

// CheckElement returns an error for a type that memory cannot have which a device or a reader
// writes: not all of its bytes are values of the type. Go trusts that a bool is 0 or 1: the
// compiler leaves out a check of bounds for an index that depends on one.
func CheckElement(t reflect.Type) error {
	if path := PointerIn(t); path != "" {
		return refusal.Invalid("elements of type %v hold Go pointers (%s), which a GPU cannot follow and the garbage collector would not see: use numbers, or arrays and structs of numbers", t, path)
	}
	if path := BoolIn(t); path != "" {
		return refusal.Invalid("elements of type %v hold a bool (%s): a GPU or a reader can write bytes other than 0 and 1, with which Go's memory is not safe: use uint8, and compare it with 0", t, path)
	}
	return nil
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
