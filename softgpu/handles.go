package softgpu

import (
	"errors"

	"github.com/ferrygpu/ferry/cu"
)

// Handles count up and are never used again, so a stale one is always known as such.
const (
	firstHandle = 0x10000
	handleStep  = 0x10
)

// newHandle gives x a handle.
func (d *Driver) newHandle(x any) uintptr {
	h := d.nextID
	d.nextID += handleStep
	d.handles[h] = x
	return h
}

// lookupGraph is lookup for graphs and their parts, where the code is another.
func lookupGraph[T any](d *Driver, h uintptr, what, kind string) (T, error) {
	x, err := lookup[T](d, h, what, kind)
	if bad, ok := errors.AsType[*refusal](err); ok {
		bad.result = cu.ErrorInvalidValue
	}
	return x, err
}

// lookup finds what handle h stands for.
func lookup[T any](d *Driver, h uintptr, what, kind string) (T, error) {
	x, ok := d.handles[h].(T)
	if ok {
		return x, nil
	}
	return x, d.badHandle(h, what, kind)
}

func (d *Driver) badHandle(h uintptr, what, kind string) error {
	_, other := d.handles[h]
	switch {
	case h == 0:
		return refuse(cu.ErrorInvalidHandle, what, "the %s is zero", kind)
	case other:
		return refuse(cu.ErrorInvalidHandle, what, "handle %#x is not a %s", h, kind)
	case h >= firstHandle && h < d.nextID && h%handleStep == 0:
		return refuse(cu.ErrorInvalidHandle, what, "%s %#x is gone: destroyed, or its context was", kind, h)
	}
	return refuse(cu.ErrorInvalidHandle, what, "%#x was never a %s", h, kind)
}
