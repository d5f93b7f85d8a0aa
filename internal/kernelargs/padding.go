package kernelargs

import "reflect"

// padding has the bytes of a type that belong to no field, or to one with the name "_". Go
// does not define them: they hold what the stack or the heap held before. It is nil for a
// type without such bytes.
type padding struct {
	gaps  []gap
	inner []inner
}

// gap is a range of bytes of a structure.
type gap struct{ from, to uintptr }

// inner is a field or the elements of an array, which have padding themselves.
type inner struct {
	of         *padding
	at, stride uintptr
	n          int
}

// paddingOf returns the padding of a type.
func paddingOf(t reflect.Type) *padding {
	p := &padding{}
	switch t.Kind() {
	case reflect.Array:
		p.addInner(t.Elem(), 0, t.Len())
	case reflect.Struct:
		end := uintptr(0)
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" {
				continue
			}
			p.addGap(end, f.Offset)
			p.addInner(f.Type, f.Offset, 1)
			end = f.Offset + f.Type.Size()
		}
		p.addGap(end, t.Size())
	}
	if len(p.gaps)+len(p.inner) == 0 {
		return nil
	}
	return p
}

func (p *padding) addGap(from, to uintptr) {
	if to > from {
		p.gaps = append(p.gaps, gap{from, to})
	}
}

// addInner adds n values of a type, one after the other from offset at.
func (p *padding) addInner(t reflect.Type, at uintptr, n int) {
	if of := paddingOf(t); of != nil && n > 0 {
		p.inner = append(p.inner, inner{of, at, t.Size(), n})
	}
}

// clear makes the padding of a value zero. value has the bytes of the value.
func (p *padding) clear(value []byte) {
	if p == nil {
		return
	}
	for _, g := range p.gaps {
		clear(value[g.from:g.to])
	}
	for _, in := range p.inner {
		for i := range in.n {
			in.of.clear(value[in.at+uintptr(i)*in.stride:])
		}
	}
}

// ClearPadding makes the bytes of a value zero that belong to no field of its type, or to one
// with the name "_". value has the bytes of a T. The type is examined once, and later calls
// allocate nothing.
func ClearPadding[T any](value []byte) {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Struct, reflect.Array:
		if e, err := ElementOf[T](); err == nil {
			e.padding.clear(value)
		}
	}
}
