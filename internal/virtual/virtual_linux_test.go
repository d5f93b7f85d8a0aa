package virtual_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/virtual"
	"github.com/ferrygpu/ferry/softgpu"
)

// counter counts what the calls of virtual memory have made and not freed, and fails one call.
type counter struct {
	cu.Driver
	live  map[string]int
	calls int
	nth   int  // the call that fails
	done  bool // it has done its work before
	last  string
}

var errPlanted = fmt.Errorf("planted: %w", cu.ErrorOutOfMemory)

// fails counts a call. It returns an error if the call is the one that fails.
func (c *counter) fails(name string, f func() error) error {
	if c.calls++; c.calls != c.nth {
		return f()
	}
	c.last = name
	if c.done {
		if err := f(); err != nil {
			return err
		}
	}
	return errPlanted
}

// counts is fails for a call that makes something.
func (c *counter) counts(name, what string, by int, f func() error) error {
	return c.fails(name, func() error {
		err := f()
		if err == nil {
			c.live[what] += by
		}
		return err
	})
}

func (c *counter) MemAddressReserve(ctx cu.Context, n, align uintptr, at cu.DevicePtr, flags uint64) (p cu.DevicePtr, err error) {
	err = c.counts("MemAddressReserve", "addresses", 1, func() error { p, err = c.Driver.MemAddressReserve(ctx, n, align, at, flags); return err })
	return p, err
}
func (c *counter) MemAddressFree(ctx cu.Context, p cu.DevicePtr, n uintptr) error {
	return c.counts("MemAddressFree", "addresses", -1, func() error { return c.Driver.MemAddressFree(ctx, p, n) })
}
func (c *counter) MemCreate(ctx cu.Context, n uintptr, p *cu.MemAllocationProp, flags uint64) (h cu.MemHandle, err error) {
	err = c.counts("MemCreate", "handles", 1, func() error { h, err = c.Driver.MemCreate(ctx, n, p, flags); return err })
	return h, err
}
func (c *counter) MemRelease(ctx cu.Context, h cu.MemHandle) error {
	return c.counts("MemRelease", "handles", -1, func() error { return c.Driver.MemRelease(ctx, h) })
}
func (c *counter) MemRetainAllocationHandle(ctx cu.Context, p cu.DevicePtr) (h cu.MemHandle, err error) {
	err = c.counts("MemRetainAllocationHandle", "handles", 1, func() error { h, err = c.Driver.MemRetainAllocationHandle(ctx, p); return err })
	return h, err
}
func (c *counter) MemImportFromShareableHandle(ctx cu.Context, fd int32, typ cu.MemAllocationHandleType) (h cu.MemHandle, err error) {
	err = c.counts("MemImportFromShareableHandle", "handles", 1, func() error { h, err = c.Driver.MemImportFromShareableHandle(ctx, fd, typ); return err })
	return h, err
}
func (c *counter) MemExportToShareableHandle(ctx cu.Context, h cu.MemHandle, typ cu.MemAllocationHandleType, flags uint64) (fd int32, err error) {
	err = c.fails("MemExportToShareableHandle", func() error { fd, err = c.Driver.MemExportToShareableHandle(ctx, h, typ, flags); return err })
	return fd, err
}
func (c *counter) MemMap(ctx cu.Context, p cu.DevicePtr, n, off uintptr, h cu.MemHandle, flags uint64) error {
	return c.counts("MemMap", "mappings", 1, func() error { return c.Driver.MemMap(ctx, p, n, off, h, flags) })
}
func (c *counter) MemUnmap(ctx cu.Context, p cu.DevicePtr, n uintptr) error {
	return c.counts("MemUnmap", "mappings", -1, func() error { return c.Driver.MemUnmap(ctx, p, n) })
}
func (c *counter) MemSetAccess(ctx cu.Context, p cu.DevicePtr, n uintptr, list []cu.MemAccessDesc) error {
	return c.fails("MemSetAccess", func() error { return c.Driver.MemSetAccess(ctx, p, n, list) })
}

func (c *counter) left() string {
	var all []string
	for what, n := range c.live {
		if n != 0 {
			all = append(all, fmt.Sprintf("%d %s", n, what))
		}
	}
	return strings.Join(all, ", ")
}

const granule = 2 << 20

// knownTo returns what asks a driver whether it has memory at an address.
func knownTo(d cu.Driver, ctx cu.Context) func(cu.DevicePtr) bool {
	return func(p cu.DevicePtr) bool {
		about, err := d.PointerGetAttributes(ctx, p)
		return err != nil || about.MemoryType != 0
	}
}

// use grows memory twice, opens it to another device, shares it and imports it. It frees all that it
// has got, again where the first time fails.
func use(d cu.Driver, ctx cu.Context) (failed error) {
	known := knownTo(d, ctx)
	note := func(err error) bool {
		failed = errors.Join(failed, err)
		return err == nil
	}
	free := func(m *virtual.Memory) {
		if !note(m.Free()) && known(m.Base) {
			note(m.Free())
		}
	}
	plain, err := virtual.Reserve(d, ctx, 0, 3*granule, 0, known)
	if note(err) {
		defer free(plain)
		if note(plain.Grow(granule)) && note(plain.OpenTo(1)) {
			note(plain.Grow(2*granule + 1))
		}
	}
	const posix = cu.MemHandleTypePosixFileDescriptor
	m, err := virtual.Reserve(d, ctx, 0, granule, posix, known)
	if !note(err) {
		return failed
	}
	defer free(m)
	if !note(m.Grow(1)) {
		return failed
	}
	f, err := m.Export("memory")
	if !note(err) {
		return failed
	}
	defer f.Close()
	other, err := virtual.Reserve(d, ctx, 0, granule, posix, known)
	if note(err) {
		defer free(other)
		note(other.Import(f))
	}
	return failed
}

// TestOneCallFails: whichever call fails, done or not, the error is returned. Nothing is left but
// addresses that the driver has refused to free, and a descriptor that a failed export has made.
func TestOneCallFails(t *testing.T) {
	soft, err := softgpu.Open(softgpu.Options{Devices: 2})
	if err == nil {
		err = soft.Init(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := soft.DevicePrimaryCtxRetain(0)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, done := range []bool{false, true} {
		for nth := 0; ; nth++ {
			c := &counter{Driver: soft, live: map[string]int{}, nth: nth, done: done}
			err := use(c, ctx)
			switch {
			case nth == 0 && err != nil:
				t.Fatal(err)
			case nth > 0 && c.last == "":
				calls += nth - 1
			case nth > 0 && !errors.Is(err, errPlanted):
				t.Errorf("%s, done %t: error %v", c.last, done, err)
			}
			allowed := ""
			switch { // what the driver has made without telling, or has refused to free
			case c.last == "MemAddressFree" && !done:
				allowed = "1 addresses"
			case done && c.last == "MemAddressReserve":
				allowed = "1 addresses"
			case done && (c.last == "MemCreate" || c.last == "MemRetainAllocationHandle" || c.last == "MemImportFromShareableHandle"):
				allowed = "1 handles"
			case done && c.last == "MemMap":
				continue // the driver has lied: the mapping stays
			}
			if got := c.left(); got != allowed {
				t.Errorf("%s, done %t: left %q, want %q", c.last, done, got, allowed)
			}
			if nth > 0 && c.last == "" {
				break
			}
		}
	}
	if calls < 40 {
		t.Errorf("%d calls failed", calls)
	}
}

// twice is a driver whose first MemSetAccess and the MemUnmap after it fail. That may have unmapped all
// the same. Where nothing is mapped, MemUnmap fails.
type twice struct {
	cu.Driver
	access, unmap, done bool
}

func (d *twice) MemSetAccess(ctx cu.Context, p cu.DevicePtr, n uintptr, all []cu.MemAccessDesc) error {
	if d.access {
		d.access = false
		return errPlanted
	}
	return d.Driver.MemSetAccess(ctx, p, n, all)
}

func (d *twice) MemUnmap(ctx cu.Context, p cu.DevicePtr, n uintptr) error {
	if !knownTo(d.Driver, ctx)(p) {
		return cu.ErrorInvalidValue
	}
	if d.unmap && !d.access {
		d.unmap = false
		if d.done {
			return errors.Join(d.Driver.MemUnmap(ctx, p, n), errPlanted)
		}
		return errPlanted
	}
	return d.Driver.MemUnmap(ctx, p, n)
}

// TestTwoCallsFail: a mapping that could neither be used nor undone is undone by the next Grow, or
// by Free.
func TestTwoCallsFail(t *testing.T) {
	soft, err := softgpu.Open(softgpu.Options{})
	if err == nil {
		err = soft.Init(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := soft.DevicePrimaryCtxRetain(0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		again, done := i%2 == 0, i >= 2
		m, err := virtual.Reserve(&twice{soft, true, true, done}, ctx, 0, 64<<20, cu.MemHandleTypeNone, knownTo(soft, ctx))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Grow(1); !errors.Is(err, errPlanted) {
			t.Errorf("got %v, want %v", err, errPlanted)
		}
		if again {
			if err := m.Grow(1); err != nil || m.Lacks(2<<20) != 0 {
				t.Errorf("unmapped %t: another Grow: %v, %d bytes lack memory", done, err, m.Lacks(2<<20))
			}
		}
		if err := m.Free(); err != nil {
			t.Errorf("again %t, unmapped %t: Free: %v", again, done, err)
		}
	}
}

// TestMayBe: only what the system says of a file decides.
func TestMayBe(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/file")
	if err == nil {
		err = file.Truncate(100)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for bytes, want := range map[uintptr]bool{0: true, 100: true, 101: false, ^uintptr(0): false} {
		if err := virtual.MayBe(file, bytes); (err == nil) != want {
			t.Errorf("100 bytes for %d: %v", bytes, err)
		}
	}
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	for _, f := range []*os.File{nil, folder, r, w, new(os.File)} {
		if err := virtual.MayBe(f, 0); !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%v: %v", f, err)
		}
	}
}
