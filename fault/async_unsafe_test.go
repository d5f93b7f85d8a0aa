package fault_test

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
)

// Unsafe: The address of live host memory becomes a number, as unified addressing demands.

// copyCase is a copy of 64 bytes that follows a fill.
type copyCase struct {
	name   string
	failed string // the call that faults
	copy   func(x *copyFixture) error
}

// copyFixture is device memory, and host memory to copy to.
type copyFixture struct {
	*fault.Driver
	ctx      cu.Context
	s        cu.Stream
	p        cu.DevicePtr
	pageable cu.HostPtr
	locked   cu.HostPtr
}

func newCopyFixture(t *testing.T, o fault.Options) *copyFixture {
	t.Helper()
	d, ctx := wrap(t, o)
	x := &copyFixture{Driver: d, ctx: ctx, pageable: cu.HostPtr(&make([]byte, 64)[0])}
	var err error
	if x.p, err = d.MemAlloc(ctx, 64); err != nil {
		t.Fatal(err)
	}
	if x.locked, err = d.MemHostAlloc(ctx, 64, 0); err != nil {
		t.Fatal(err)
	}
	if x.s, err = d.StreamCreate(ctx, cu.StreamNonBlocking); err != nil {
		t.Fatal(err)
	}
	return x
}

// address returns a host address as the copies take it that find out the kind of memory.
func address(h cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(uintptr(unsafe.Pointer(h))) }

func (x *copyFixture) toPageable() error { return x.MemcpyDtoHAsync(x.ctx, x.pageable, x.p, 64, x.s) }

// captured captures a copy to pageable memory.
func (x *copyFixture) captured() error {
	begun := x.StreamBeginCapture(x.ctx, x.s, cu.StreamCaptureModeRelaxed)
	copied := x.toPageable()
	_, ended := x.StreamEndCapture(x.ctx, x.s)
	return errors.Join(begun, copied, ended)
}

// rows copies to host memory, or to an address.
func (x *copyFixture) rows(to cu.Memcpy2D) error {
	to.SrcMemoryType, to.SrcDevice, to.SrcPitch = cu.MemoryTypeDevice, x.p, 8
	to.DstPitch, to.WidthInBytes, to.Height = 8, 8, 8
	return x.Memcpy2DAsync(x.ctx, &to, x.s)
}

// box does what rows does, as one box.
func (x *copyFixture) box(to cu.Memcpy3D) error {
	to.SrcMemoryType, to.SrcDevice, to.SrcPitch, to.SrcHeight = cu.MemoryTypeDevice, x.p, 8, 8
	to.DstPitch, to.DstHeight, to.WidthInBytes, to.Height, to.Depth = 8, 8, 8, 8, 1
	return x.Memcpy3DAsync(x.ctx, &to, x.s)
}

// TestAsyncCopyWaits: a copy to pageable memory waits. It returns a fault of work before it, and
// its own.
func TestAsyncCopyWaits(t *testing.T) {
	for _, c := range []copyCase{
		{"its own fault", "cuMemcpyDtoHAsync", (*copyFixture).toPageable},
		{"one before", "cuMemsetD8Async", (*copyFixture).toPageable},
		{"an address", "cuMemcpyAsync", func(x *copyFixture) error { return x.MemcpyAsync(x.ctx, address(x.pageable), x.p, 64, x.s) }},
		{"rows", "cuMemcpy2DAsync", func(x *copyFixture) error {
			return x.rows(cu.Memcpy2D{DstMemoryType: cu.MemoryTypeHost, DstHost: x.pageable})
		}},
		{"rows at an address", "cuMemcpy2DAsync", func(x *copyFixture) error {
			return x.rows(cu.Memcpy2D{DstMemoryType: cu.MemoryTypeUnified, DstDevice: address(x.pageable)})
		}},
		{"a box", "cuMemcpy3DAsync", func(x *copyFixture) error {
			return x.box(cu.Memcpy3D{DstMemoryType: cu.MemoryTypeHost, DstHost: x.pageable})
		}},
		{"a box at an address", "cuMemcpy3DAsync", func(x *copyFixture) error {
			return x.box(cu.Memcpy3D{DstMemoryType: cu.MemoryTypeUnified, DstDevice: address(x.pageable)})
		}},
	} {
		for _, one := range []bool{false, true} {
			x := newCopyFixture(t, fault.Options{Call: c.failed, Nth: 1, Mode: fault.Async, Code: cu.ErrorIllegalAddress, OneContext: one})
			if err := x.MemsetD8Async(x.ctx, x.p, 1, 64, x.s); err != nil {
				t.Fatal(err)
			}
			if err := c.copy(x); err != error(cu.ErrorIllegalAddress) {
				t.Errorf("%s: the copy returns %v", c.name, err)
			}
		}
	}
}

// TestAsyncCopyReturns: other copies return no error. The next wait does.
func TestAsyncCopyReturns(t *testing.T) {
	for _, c := range []copyCase{
		{"page-locked", "cuMemcpyDtoHAsync", func(x *copyFixture) error { return x.MemcpyDtoHAsync(x.ctx, x.locked, x.p, 64, x.s) }},
		{"an address", "cuMemcpyAsync", func(x *copyFixture) error { return x.MemcpyAsync(x.ctx, address(x.locked), x.p, 64, x.s) }},
		{"rows", "cuMemcpy2DAsync", func(x *copyFixture) error {
			return x.rows(cu.Memcpy2D{DstMemoryType: cu.MemoryTypeHost, DstHost: x.locked})
		}},
		{"a box", "cuMemcpy3DAsync", func(x *copyFixture) error {
			return x.box(cu.Memcpy3D{DstMemoryType: cu.MemoryTypeUnified, DstDevice: address(x.locked)})
		}},
		{"registered", "cuMemcpyDtoHAsync", func(x *copyFixture) error {
			return errors.Join(x.MemHostRegister(x.ctx, x.pageable, 64, 0), x.MemcpyDtoHAsync(x.ctx, x.pageable, x.p, 64, x.s))
		}},
		{"from the host", "cuMemcpyHtoDAsync", func(x *copyFixture) error { return x.MemcpyHtoDAsync(x.ctx, x.p, x.pageable, 64, x.s) }},
		{"captured", "cuMemcpyDtoHAsync", (*copyFixture).captured},
		{"captured behind a fault", "cuMemsetD8Async", (*copyFixture).captured},
	} {
		x := newCopyFixture(t, fault.Options{Call: c.failed, Nth: 1, Mode: fault.Async, Code: cu.ErrorIllegalAddress})
		if err := x.MemsetD8Async(x.ctx, x.p, 1, 64, x.s); err != nil {
			t.Fatal(err)
		}
		if err := c.copy(x); err != nil {
			t.Errorf("%s: the copy returns %v", c.name, err)
		}
		if err := x.CtxSynchronize(x.ctx); err != error(cu.ErrorIllegalAddress) {
			t.Errorf("%s: the wait returns %v", c.name, err)
		}
	}
}
