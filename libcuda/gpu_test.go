package libcuda_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/libcuda"
)

// gpu has what a test on hardware needs: the first device and its primary context.
type gpu struct {
	testing.TB
	*libcuda.Driver
	dev cu.Device
	ctx cu.Context
}

func newGPU(t testing.TB) *gpu {
	t.Helper()
	d := gputest.Driver(t)
	g := &gpu{TB: t, Driver: d, dev: gputest.Devices(t, d, 1)[0]}
	ctx, err := d.DevicePrimaryCtxRetain(g.dev)
	g.must(err)
	g.ctx = ctx
	t.Cleanup(func() {
		if err := d.DevicePrimaryCtxRelease(g.dev); err != nil {
			t.Errorf("release the primary context: %v", err)
		}
	})
	return g
}

// must ends the test on an error.
func (g *gpu) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// want demands that err wraps a result.
func (g *gpu) want(err error, result cu.Result) {
	g.Helper()
	if !errors.Is(err, result) {
		g.Errorf("error %v, want %s", err, result.Name())
	}
}

// cleanup runs f when the test ends.
func (g *gpu) cleanup(f func() error) {
	g.Helper()
	g.Cleanup(func() {
		if err := f(); err != nil {
			g.Errorf("clean up: %v", err)
		}
	})
}

func (g *gpu) alloc(bytes int) cu.DevicePtr {
	g.Helper()
	p, err := g.MemAlloc(g.ctx, uintptr(bytes))
	g.must(err)
	g.cleanup(func() error { return g.MemFree(g.ctx, p) })
	return p
}

func (g *gpu) stream() cu.Stream {
	g.Helper()
	s, err := g.StreamCreate(g.ctx, cu.StreamNonBlocking)
	g.must(err)
	g.cleanup(func() error { return g.StreamDestroy(g.ctx, s) })
	return s
}

func (g *gpu) event() cu.Event { return g.eventWith(cu.EventDefault) }

func (g *gpu) eventWith(flags cu.EventFlags) cu.Event {
	g.Helper()
	e, err := g.EventCreate(g.ctx, flags)
	g.must(err)
	g.cleanup(func() error { return g.EventDestroy(g.ctx, e) })
	return e
}

// random returns bytes that are new in every run.
func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func (g *gpu) upload(dst cu.DevicePtr, data []byte) {
	g.Helper()
	g.must(g.MemcpyHtoD(g.ctx, dst, cu.HostPtr(&data[0]), uintptr(len(data))))
}

func (g *gpu) download(src cu.DevicePtr, n int) []byte {
	g.Helper()
	data := bytes.Repeat([]byte{0xa5}, n)
	g.must(g.MemcpyDtoH(g.ctx, cu.HostPtr(&data[0]), src, uintptr(n)))
	return data
}

// same compares every byte.
func (g *gpu) same(what string, got, want []byte) {
	g.Helper()
	if len(got) != len(want) {
		g.Errorf("%s: %d bytes, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if got[i] != want[i] {
			g.Errorf("%s: byte %d of %d is %#x, want %#x", what, i, len(got), got[i], want[i])
			return
		}
	}
}
