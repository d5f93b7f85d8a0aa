package ferry

import (
	"math"
	"reflect"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// element describes an element type.
type element struct {
	name string
	size uintptr
	err  error // why the type cannot be in a buffer
}

// elements caches the *element of each reflect.Type.
var elements sync.Map

// elementOf returns the description of T. The error says why T cannot be in a buffer.
func elementOf[T any]() (*element, error) {
	t := reflect.TypeFor[T]()
	if e, ok := elements.Load(t); ok {
		return e.(*element), e.(*element).err
	}
	e := &element{name: t.String(), size: t.Size()}
	if path := kernelargs.PointerIn(t); path != "" {
		e.err = refusal.Invalid("elements of type %v hold Go pointers (%s), which a GPU cannot follow and the garbage collector would not see: use numbers, or arrays and structs of numbers", t, path)
	}
	elements.Store(t, e)
	return e, e.err
}

// bytes returns the size of n elements.
func (e *element) bytes(n int) (uintptr, error) {
	if n < 0 {
		return 0, refusal.Invalid("%d elements of %s: the number cannot be negative", n, e.name)
	}
	if e.size != 0 && uintptr(n) > math.MaxInt/e.size {
		return 0, refusal.New(cu.ErrorOutOfMemory, "%d elements of %s, %d bytes each, are more bytes than an address can count", n, e.name, e.size)
	}
	return uintptr(n) * e.size, nil
}
