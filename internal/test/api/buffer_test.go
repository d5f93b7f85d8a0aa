package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestSliceWaits: Slice waits for operations that use the buffer, ReadSlice for those that
// write it.
func TestSliceWaits(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, s, host, device)
	want := make([]byte, 4096)
	fillRandom(want)
	check(t, ferry.Copy(s, device, ferry.Pageable(want)))
	check(t, s.Wait(context.Background()))

	open := gate(t, s)
	check(t, ferry.Copy(s, host.Range(100, 4096), device.Range(100, 4096)))
	waits(t, "Slice", open, func() {
		if got := host.Slice(); !bytes.Equal(got[100:], want[100:]) {
			t.Error("Slice returns old bytes")
		}
	})

	open = gate(t, s)
	check(t, ferry.Copy(s, device, host)) // reads host
	if host.ReadSlice() == nil {          // must return although the gate is shut
		t.Error("ReadSlice is nil")
	}
	waits(t, "Slice of a buffer that is read", open, func() { host.Range(0, 1).Slice() })
}

// TestManagedSliceWaits is TestSliceWaits for managed memory and a kernel.
func TestManagedSliceWaits(t *testing.T) {
	g := openTest(t)
	m, err := ferry.AllocManaged[float32](g, 1000, nil)
	if errors.Is(err, cu.ErrorNotSupported) {
		t.Skip(err)
	}
	check(t, err)
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	defer closeAll(t, m, s, code)
	for i := range m.Slice() {
		m.Slice()[i] = float32(i)
	}
	open := gate(t, s)
	check(t, s.Launch(k, ferry.Cover(1000, 256), m, uint64(1000)))
	waits(t, "Managed.Slice", open, func() {
		for i, got := range m.Slice() {
			if got != float32(i+1) {
				t.Errorf("element %d is %v, want %v", i, got, i+1)
				return
			}
		}
	})
}

// TestCloseWaits: Close waits for operations that use the buffer.
func TestCloseWaits(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	for _, k := range kindsOf(g) {
		if k.name == "pageable" {
			continue
		}
		m := must(k.make(g, 4096))(t)
		sink := must(ferry.Alloc[byte](g, 4096))(t)
		open := gate(t, s)
		check(t, ferry.Copy(s, ferry.Memory[byte](sink), m.Memory))
		waits(t, "Close of "+k.name, open, func() { check(t, m.close()) })
		check(t, m.close())
		closeAll(t, sink)
	}
	closeAll(t, s)
}

// TestCloseInFlightLazy closes everything before the lazy schedule has copied anything. The
// data arrives nevertheless.
func TestCloseInFlightLazy(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Lazy)
	host, out := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.AllocHost[byte](g, 4096, nil))(t)
	device := must(ferry.Alloc[byte](g, 4096))(t)
	s := must(ferry.NewStream(g, nil))(t)
	raw := out.Slice()
	fillRandom(host.Slice())
	want := bytes.Clone(host.Slice())
	check(t, ferry.Copy(s, device, host))
	check(t, ferry.Copy(s, out, device))
	if !racebuild.On && bytes.Equal(raw, want) { // a data race that the detector would report
		t.Fatal("the lazy schedule has copied already: the test is void")
	}
	closeAll(t, s, device, host)
	if !bytes.Equal(out.Slice(), want) {
		t.Error("the bytes differ")
	}
	closeAll(t, out)
}

// TestCloseInHostFunc: Close within a host function frees the memory afterwards. Other calls
// there are refused.
func TestCloseInHostFunc(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 256<<20))(t)
	keep := must(ferry.Alloc[byte](g, 4096))(t)
	before, _, err := g.MemInfo()
	check(t, err)
	var closeErr, closedErr, copyErr, waitErr error
	var sliceErr, allErr error
	check(t, ferry.Copy(s, host, device.Range(0, 4096)))
	check(t, s.HostFunc(func() {
		closeErr = device.Close()
		closedErr = ferry.Copy(s, keep, device.Range(0, 4096))
		copyErr = ferry.Copy(s, keep, host)
		_, sliceErr = host.SliceContext(context.Background())
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		waitErr, allErr = s.Wait(ctx), g.Wait(ctx)
	}))
	check(t, s.Wait(context.Background()))
	check(t, closeErr)
	wantError(t, closedErr, ferry.ErrClosed, "device buffer")
	wantError(t, copyErr, cu.ErrorNotPermitted, "copy 4.0 KiB")
	wantError(t, waitErr, cu.ErrorNotPermitted)
	wantError(t, allErr, cu.ErrorNotPermitted)
	if errors.Is(waitErr, context.DeadlineExceeded) || errors.Is(allErr, context.DeadlineExceeded) {
		t.Error("a wait within a host function was not refused, but hung")
	}
	wantError(t, sliceErr, cu.ErrorNotPermitted, "host access")
	eventually(t, "freed", func() bool {
		after, _, err := g.MemInfo()
		check(t, err)
		return after-before >= 128<<20
	})
	closeAll(t, keep, host, s)
}

// TestClosedBuffer: the error for a use after Close says which buffer.
func TestClosedBuffer(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	device, host := must(ferry.Alloc[float32](g, 100))(t), must(ferry.AllocHost[float32](g, 100, nil))(t)
	part := device.Range(10, 20)
	defer closeAll(t, s, code, host)
	check(t, part.Close()) // does nothing, because it is a range
	check(t, ferry.Fill(s, part, float32(1)))
	closeAll(t, device, device)
	for _, err := range []error{
		ferry.Copy(s, device, host),
		ferry.Copy(s, host, device),
		ferry.Copy(s, host.Range(10, 20), part),
		ferry.Fill(s, part, 0),
		s.Launch(k, ferry.Cover(10, 10), part, uint64(10)),
		part.Wait(context.Background()),
	} {
		wantError(t, err, ferry.ErrClosed, "device buffer", "100 float32")
	}
	closeAll(t, host)
	for _, slice := range []func() []float32{host.Slice, host.ReadSlice} {
		wantError(t, sliceError(slice), ferry.ErrClosed, "host access", "page-locked buffer", "100 float32")
	}
	_, err := host.SliceContext(context.Background())
	wantError(t, err, ferry.ErrClosed, "page-locked buffer")
	_, err = host.ReadSliceContext(context.Background())
	wantError(t, err, ferry.ErrClosed, "page-locked buffer")
	wantError(t, host.Wait(context.Background()), ferry.ErrClosed, "page-locked buffer")
	check(t, (*ferry.Host[int])(nil).Close())
	check(t, (*ferry.Device[int])(nil).Close())
	check(t, (*ferry.Managed[int])(nil).Close())
	check(t, (*ferry.Stream)(nil).Close())
	check(t, (*ferry.Event)(nil).Close())
	check(t, (*ferry.Module)(nil).Close())
}

// TestBufferOnManyStreams uses one buffer on more streams than its tracker has inline
// entries for, several times. Slice waits for all of them.
func TestBufferOnManyStreams(t *testing.T) {
	g := openTest(t)
	const streams = 12
	host, device := must(ferry.AllocHost[byte](g, streams*100, nil))(t), must(ferry.Alloc[byte](g, streams*100))(t)
	for round := range 5 {
		clear(host.Slice())
		var all []*ferry.Stream
		var gates []func()
		for i := range streams {
			s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			all, gates = append(all, s), append(gates, gate(t, s))
			check(t, ferry.Fill(s, device.Range(100*i, 100*i+100), byte(round*streams+i+1)))
			check(t, ferry.Copy(s, host.Range(100*i, 100*i+100), device.Range(100*i, 100*i+100)))
		}
		waits(t, "Slice", func() {
			for _, open := range gates {
				open()
			}
		}, func() {
			for i, got := range host.Slice() {
				if want := byte(round*streams + i/100 + 1); got != want {
					t.Errorf("byte %d is %d, want %d", i, got, want)
					return
				}
			}
		})
		for _, s := range all {
			closeAll(t, s)
		}
	}
	closeAll(t, host, device)
}

// TestEmpty: buffers without elements, and elements without bytes, are valid.
func TestEmpty(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			src, dst := must(from.make(g, 0))(t), must(to.make(g, 0))(t)
			check(t, ferry.Copy(s, dst.Memory, src.Memory))
			if src.Len() != 0 || src.Size() != 0 {
				t.Errorf("%s: %d elements, %d bytes, want none", from.name, src.Len(), src.Size())
			}
			if src.slice != nil && (src.slice() == nil || len(src.slice()) != 0) {
				t.Errorf("%s: Slice is %v, want an empty slice", from.name, src.slice())
			}
			check(t, src.close())
			check(t, dst.close())
		}
	}
	nothing := must(ferry.Alloc[struct{}](g, 1000))(t)
	if nothing.Len() != 1000 || nothing.Size() != 0 {
		t.Errorf("%d elements, %d bytes, want 1000 and 0", nothing.Len(), nothing.Size())
	}
	check(t, ferry.Fill(s, nothing, struct{}{}))
	closeAll(t, nothing)
	check(t, s.Wait(context.Background()))
}

// sliceMemory is a buffer of bytes that the host can access.
type sliceMemory interface {
	ferry.Memory[byte]
	fmt.Stringer
	Slice() []byte
	ReadSlice() []byte
	SliceContext(ctx context.Context) ([]byte, error)
	ReadSliceContext(ctx context.Context) ([]byte, error)
	Close() error
}

// onSlices runs a test on each kind of buffer that the host can access. open opens the GPU of
// each.
func onSlices(t *testing.T, open func(t *testing.T) *ferry.GPU, test func(t *testing.T, g *ferry.GPU, m sliceMemory)) {
	t.Helper()
	kinds := append(slices.Clone(bytesKinds), bytesKind{"pooled", 0, func(g *ferry.GPU, n int) (bytesMemory, error) {
		pool, err := ferry.NewPinnedPool(g, nil)
		if err != nil {
			return bytesMemory{}, err
		}
		h, err := fromPool[byte](pool, n)
		return bytesMemory{Memory: h}, errors.Join(err, pool.Close())
	}})
	tested := 0
	for _, k := range kinds {
		if k.name == "device" || k.name == "pageable" {
			continue
		}
		t.Run("memory="+k.name, func(t *testing.T) {
			g := open(t)
			made, err := k.make(g, 1000)
			if errors.Is(err, cu.ErrorNotSupported) {
				t.Skip(err)
			}
			check(t, err)
			test(t, g, made.Memory.(sliceMemory))
			tested++
		})
	}
	if tested == 0 {
		t.Error("no kind of memory was tested")
	}
}

// TestSliceContext: SliceContext and ReadSliceContext return the memory itself, when the copies
// to it are done. ReadSliceContext does not wait for copies from it. The end of the context
// ends the wait, and the copy goes on.
func TestSliceContext(t *testing.T) {
	onSlices(t, func(t *testing.T) *ferry.GPU { return openTest(t) }, testSliceContext)
}

func testSliceContext(t *testing.T, g *ferry.GPU, m sliceMemory) {
	s := must(ferry.NewStream(g, nil))(t)
	device := must(ferry.Alloc[byte](g, m.Len()))(t)
	defer closeAll(t, m, device, s)
	want := make([]byte, m.Len())
	background := context.Background()
	for name, slice := range map[string]func(context.Context) ([]byte, error){"SliceContext": m.SliceContext, "ReadSliceContext": m.ReadSliceContext} {
		fillRandom(want)
		check(t, ferry.Copy(s, device, ferry.Pageable(want)))
		check(t, s.Wait(background))
		open := gate(t, s)
		check(t, ferry.Copy(s, ferry.Memory[byte](m), device))

		ctx, cancel := context.WithCancel(background)
		waits(t, name, cancel, func() {
			got, err := slice(ctx)
			wantError(t, err, context.Canceled, "host access to "+m.String())
			if got != nil {
				t.Errorf("%s returns %d bytes with the error", name, len(got))
			}
		})
		open()
		ctx, cancel = context.WithCancel(background)
		defer cancel()
		got := must(slice(ctx))(t)
		wantBytes(t, got, want)
		got[7]++ // it is the memory itself
		check(t, ferry.Copy(s, device, ferry.Memory[byte](m)))
		if back := must(ferry.Download(device))(t); back[7] != want[7]+1 {
			t.Errorf("%s: byte 7 is %d on the device after the slice was written, want %d", name, back[7], want[7]+1)
		}
	}
	check(t, s.Wait(background))
	if _, managed := m.(*ferry.Managed[byte]); managed { // else ReadSlice waits, too
		gputest.Needs(t, cu.DeviceAttributeConcurrentManagedAccess)
	}
	open := gate(t, s)
	check(t, ferry.Copy(s, device, ferry.Memory[byte](m))) // reads m
	must(m.ReadSliceContext(background))(t)                // must return although the gate is shut
	waits(t, "SliceContext of a buffer that is read", open, func() { must(m.SliceContext(background))(t) })
}

// TestSlicePanics: Slice and ReadSlice panic with the error that SliceContext and
// ReadSliceContext return. It says which buffer of which GPU, and wraps ErrClosed after Close.
func TestSlicePanics(t *testing.T) {
	onSlices(t, func(t *testing.T) *ferry.GPU { return openTest(t) }, func(t *testing.T, g *ferry.GPU, m sliceMemory) {
		name := m.String()
		closeAll(t, m)
		wantSliceErrors(t, m, ferry.ErrClosed, "host access", name, " on "+gpuName(g))
	})
	for _, m := range []sliceMemory{(*ferry.Host[byte])(nil), (*ferry.Managed[byte])(nil)} {
		wantSliceErrors(t, m, cu.ErrorInvalidValue, "host access", "no buffer given (nil)")
	}
}

// TestSliceAfterFault: after an operation on the buffer failed, the error of Slice and
// SliceContext wraps that of the driver. It says which buffer, and which kernel on which stream.
func TestSliceAfterFault(t *testing.T) {
	open := func(t *testing.T) *ferry.GPU { return must(ferry.Open("soft"))(t) }
	onSlices(t, open, func(t *testing.T, g *ferry.GPU, m sliceMemory) {
		s := must(ferry.NewStream(g, nil))(t)
		code, k := load(t, g, "increment")
		v := must(ferry.Alloc[float32](g, 10))(t)
		device := must(ferry.Alloc[byte](g, m.Len()))(t)
		resume := gate(t, s)
		check(t, s.Launch(k, ferry.Cover(1<<20, 256), v, uint64(1<<20)))
		check(t, ferry.Copy(s, ferry.Memory[byte](m), device))
		resume()
		wantSliceErrors(t, m, cu.ErrorIllegalAddress, "host access to "+m.String(), "stream 1 of soft:h200", "increment")
		_ = errors.Join(m.Close(), v.Close(), device.Close(), code.Close(), s.Close(), g.Close()) // the context is lost
	})
}

// wantSliceErrors checks the errors with which Slice and ReadSlice panic, and those of the forms
// with a context.
func wantSliceErrors(t *testing.T, m sliceMemory, is error, parts ...string) {
	t.Helper()
	for _, slice := range []func() []byte{m.Slice, m.ReadSlice} {
		wantError(t, sliceError(slice), is, parts...)
	}
	for _, slice := range []func(context.Context) ([]byte, error){m.SliceContext, m.ReadSliceContext} {
		got, err := slice(context.Background())
		wantError(t, err, is, parts...)
		if got != nil {
			t.Errorf("%d bytes come with the error", len(got))
		}
	}
}

// lostDriver is a driver whose waits for streams fail while lost is set.
type lostDriver struct {
	*fakeDriver
	lost bool
}

func (d *lostDriver) StreamQuery(cu.Context, cu.Stream) error {
	if d.lost {
		return cu.ErrorIllegalAddress
	}
	return nil
}

// TestSliceOfLostContext: where the driver does not say which kernel failed, as on hardware, the
// error has the stream and the kernel that was launched there last.
func TestSliceOfLostContext(t *testing.T) {
	d := &lostDriver{newFake(), true}
	x := newCallFixture(t, openDriver(t, d), 64)
	check(t, x.step())
	where := "wait for stream 1 of cuda:0: "
	wantSliceErrors(t, x.host, cu.ErrorIllegalAddress, "host access to "+x.host.String()+": "+where, "the last kernel launched there was vector_add")
	d.lost = false
	wantError(t, x.stream.Wait(context.Background()), cu.ErrorIllegalAddress, where)
}

// zeroSized checks that a buffer of elements of size 0 has as many as were asked for.
func zeroSized[T any](t *testing.T, what string, m ferry.Memory[T], err error, slices ...func() []T) {
	t.Helper()
	check(t, err)
	if m.Len() != 5 || m.Size() != 0 {
		t.Errorf("%s of %T: %d elements of %d bytes, want 5 and 0", what, *new(T), m.Len(), m.Size())
	}
	for i, slice := range slices {
		if n := len(slice()); n != 5 {
			t.Errorf("%s of %T: slice %d has %d elements, Len is 5", what, *new(T), i, n)
		}
	}
	if all, err := ferry.Download(m); err != nil || len(all) != 5 {
		t.Errorf("%s of %T: downloaded %d elements, %v", what, *new(T), len(all), err)
	}
}

// testZeroSized makes buffers of five elements of size 0 by each function that makes buffers.
func testZeroSized[T any](t *testing.T, g *ferry.GPU, s *ferry.Stream, pool *ferry.MemPool, pinned *ferry.PinnedPool) {
	d, err := ferry.Alloc[T](g, 5)
	zeroSized(t, "Alloc", d, err)
	async, err := ferry.AllocAsync[T](s, 5, nil)
	zeroSized(t, "AllocAsync", async, err)
	own, err := ferry.AllocAsync[T](s, 5, pool)
	zeroSized(t, "AllocAsync of a pool", own, err)
	pitched, pitch, err := ferry.AllocPitched[T](g, 5, 1)
	zeroSized(t, "AllocPitched", pitched, err)
	if pitch != 5 {
		t.Errorf("the pitch of %T is %d, want 5", *new(T), pitch)
	}
	for _, o := range []*ferry.HostOptions{nil, {Mapped: true}, {WriteCombined: true}} {
		h, err := ferry.AllocHost[T](g, 5, o)
		zeroSized(t, "AllocHost", h, err, h.Slice, h.ReadSlice)
		if n := len(h.Range(1, 4).Slice()); n != 3 {
			t.Errorf("a range of 3 %T has %d", *new(T), n)
		}
		closeAll(t, h)
	}
	h, err := fromPool[T](pinned, 5)
	zeroSized(t, "Host.Alloc", h, err, h.Slice, h.ReadSlice)
	closeAll(t, h)
	m, err := ferry.AllocManaged[T](g, 5, nil)
	zeroSized(t, "AllocManaged", m, err, m.Slice, m.ReadSlice)
	r, err := ferry.Register(g, make([]T, 5), nil)
	zeroSized(t, "Register", r, err, r.Slice, r.ReadSlice)
	up, err := ferry.Upload(g, make([]T, 5))
	zeroSized(t, "Upload", up, err)
	zeroSized(t, "Pageable", ferry.Pageable(make([]T, 5)), nil)
	check(t, ferry.Copy(s, d, r))
	check(t, ferry.Copy(s, m, d))
	check(t, ferry.Fill(s, d, *new(T)))
	check(t, s.Wait(t.Context()))
	closeAll(t, d, async, own, pitched, m, r, up)
}

// TestZeroSizeElements: Len and the length of Slice agree for elements without bytes.
func TestZeroSizeElements(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	pool := must(ferry.NewMemPool(g, nil))(t)
	pinned := must(ferry.NewPinnedPool(g, nil))(t)
	testZeroSized[struct{}](t, g, s, pool, pinned)
	testZeroSized[[0]float64](t, g, s, pool, pinned)
	testZeroSized[struct {
		_ struct{}
		_ [0]uint32
	}](t, g, s, pool, pinned)
	huge := must(ferry.AllocHost[struct{}](g, math.MaxInt, nil))(t)
	if n := len(huge.Slice()); n != math.MaxInt {
		t.Errorf("%d of %d elements", n, math.MaxInt)
	}
	closeAll(t, huge, pool, pinned, s)
}
