package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
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
	check(t, s.Launch(k, ferry.Grid(1000, 256), m, uint64(1000)))
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
	if !raceEnabled && bytes.Equal(raw, want) { // a data race that the detector would report
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
	var sliceErr error
	check(t, ferry.Copy(s, host, device.Range(0, 4096)))
	check(t, s.HostFunc(func() {
		closeErr = device.Close()
		closedErr = ferry.Copy(s, keep, device.Range(0, 4096))
		copyErr = ferry.Copy(s, keep, host)
		_, sliceErr = host.SliceContext(context.Background())
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		waitErr = errors.Join(s.Wait(ctx), g.Wait(ctx))
	}))
	check(t, s.Wait(context.Background()))
	check(t, closeErr)
	wantError(t, closedErr, ferry.ErrClosed, "device buffer")
	wantError(t, copyErr, cu.ErrorNotPermitted, "copy 4.0 KiB")
	wantError(t, waitErr, cu.ErrorNotPermitted)
	if errors.Is(waitErr, context.DeadlineExceeded) {
		t.Error("a wait within a host function was not refused, but hung")
	}
	wantError(t, sliceErr, cu.ErrorNotPermitted, "host access")
	after, _, err := g.MemInfo()
	check(t, err)
	if after-before < 128<<20 {
		t.Errorf("%d bytes are free after Close of a buffer of %d, %d were before", after, 256<<20, before)
	}
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
		s.Launch(k, ferry.Grid(10, 10), part, uint64(10)),
		part.Wait(context.Background()),
	} {
		wantError(t, err, ferry.ErrClosed, "device buffer", "100 float32")
	}
	closeAll(t, host)
	for _, slice := range []func() []float32{host.Slice, host.ReadSlice} {
		wantError(t, sliceError(slice), ferry.ErrClosed, "host access", "page-locked buffer", "100 float32")
	}
	_, err := host.SliceContext(nil)
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
