package api

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestUpload uploads slices with elements of all sizes and downloads them again: all of
// them, and a range.
func TestUpload(t *testing.T) {
	g := openTest(t)
	upload(t, g, func(i int) uint8 { return uint8(i % 3) })
	upload(t, g, func(i int) int8 { return int8(i) })
	upload(t, g, func(i int) uint16 { return uint16(3 * i) })
	upload(t, g, func(i int) float32 { return float32(i) / 4 })
	upload(t, g, func(i int) uint64 { return uint64(i) << 40 })
	upload(t, g, func(i int) [3]byte { return [3]byte{byte(i), byte(i >> 8), 7} })
	upload(t, g, func(i int) complex128 { return complex(float64(i), -float64(i)) })
	upload(t, g, func(i int) [100]int32 { return [100]int32{0: int32(i), 99: ^int32(i)} })
	upload(t, g, func(int) struct{} { return struct{}{} })
}

func upload[T comparable](t *testing.T, g *ferry.GPU, value func(int) T) {
	t.Helper()
	for _, n := range []int{0, 1, 1000, 30_011} { // more than 64 KiB goes through the staging ring
		want := make([]T, n)
		for i := range want {
			want[i] = value(i)
		}
		source := slices.Clone(want)
		d := must(ferry.Upload(g, source))(t)
		clear(source) // Upload has returned, so it has been read
		if d.Len() != n {
			t.Errorf("%T: %d elements, want %d", want, d.Len(), n)
		}
		if got := must(ferry.Download(d))(t); !slices.Equal(got, want) || got == nil {
			t.Errorf("%T, %d elements: the elements differ", want, n)
		}
		i, j := n/3, n-n/5
		if got := must(ferry.Download(d.Range(i, j)))(t); !slices.Equal(got, want[i:j]) {
			t.Errorf("%T, elements %d to %d of %d: the elements differ", want, i, j, n)
		}
		closeAll(t, d)
	}
}

// TestUploadPinnedSlice: a slice of page-locked memory is uploaded when Upload returns. The
// copy of such memory is otherwise asynchronous.
func TestUploadPinnedSlice(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy} {
		g := openSoft(t, "h200", schedule)
		host := must(ferry.AllocHost[byte](g, 1<<20, nil))(t)
		source := host.Slice()
		fillRandom(source)
		want := bytes.Clone(source)
		d := must(ferry.Upload(g, source))(t)
		clear(source)
		wantBytes(t, must(ferry.Download(d))(t), want)
		closeAll(t, host, d)
	}
}

// TestUploadBesideDefaultStream: Upload and Download do not wait for other streams, not even
// for the default stream.
func TestUploadBesideDefaultStream(t *testing.T) {
	g := openTest(t)
	open := gate(t, g.DefaultStream())
	want := make([]byte, 100_000)
	fillRandom(want)
	done := make(chan struct{})
	var d *ferry.Device[byte] // closed later: the driver frees when all work is done
	go func() {
		defer close(done)
		var err error
		if d, err = ferry.Upload(g, want); err != nil {
			t.Error(err)
			return
		}
		if got, err := ferry.Download(d); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the bytes differ, or there is an error: %v", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(timeout):
		t.Error("Upload or Download waits for the default stream")
	}
	open()
	<-done
	closeAll(t, d)
}

// TestDownloadWaits: Download of every kind of memory waits for operations that write it, not
// for those that read it.
func TestDownloadWaits(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeConcurrentManagedAccess)
	g := openTest(t)
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	const n = 100_000
	other := must(ferry.Alloc[byte](g, n))(t)
	for _, k := range kindsOf(g) {
		m := must(k.make(g, n))(t)
		want := make([]byte, n)
		fillRandom(want)
		check(t, ferry.Copy(s, ferry.Memory[byte](other), ferry.Pageable(want)))
		if k.name == "pageable" {
			check(t, ferry.Copy(s, m.Memory, ferry.Memory[byte](other)))
			wantBytes(t, must(ferry.Download(m.Memory))(t), want)
			continue
		}
		open := gate(t, s)
		check(t, ferry.Copy(s, m.Memory, ferry.Memory[byte](other)))
		waits(t, "Download of "+k.name+" memory", open, func() {
			got, err := ferry.Download(m.Memory)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: the bytes differ, or there is an error: %v", k.name, err)
			}
		})
		open = gate(t, s)
		check(t, ferry.Copy(s, ferry.Memory[byte](other), m.Memory))
		wantBytes(t, must(ferry.Download(m.Memory))(t), want) // must return although the gate is shut
		open()
		check(t, m.close())
	}
	closeAll(t, other, s)
}

// TestDownloadCopies: to change what Download has returned does not change the buffer.
func TestDownloadCopies(t *testing.T) {
	g := openTest(t)
	want := make([]byte, 64)
	fillRandom(want)
	for _, k := range kindsOf(g) {
		m := must(k.make(g, 64))(t)
		check(t, ferry.Copy(g.DefaultStream(), m.Memory, ferry.Memory[byte](ferry.Pageable(want))))
		clear(must(ferry.Download(m.Memory))(t))
		wantBytes(t, must(ferry.Download(m.Memory))(t), want)
		check(t, m.close())
	}
}

// TestUploadRefused: bad input, and things that are closed.
func TestUploadRefused(t *testing.T) {
	g := openTest(t)
	closed := must(ferry.Open("soft"))(t)
	closeAll(t, closed)
	_, err := ferry.Upload(closed, []byte{1})
	wantError(t, err, ferry.ErrClosed, "allocate 1 byte", "soft:h200")
	_, err = ferry.Upload(nil, []byte{1})
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.Upload(g, []string{"a"})
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")

	_, err = ferry.Download[byte](nil)
	wantError(t, err, cu.ErrorInvalidValue, "download", "no buffer given")
	_, err = ferry.Download((*ferry.Host[byte])(nil))
	wantError(t, err, cu.ErrorInvalidValue, "download", "no buffer given")
	_, err = ferry.Download(ferry.Pageable([]*int{nil}))
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")
	for _, k := range kindsOf(g) {
		m := must(k.make(g, 10))(t)
		_, err = ferry.Download(m.part(3, 11))
		wantError(t, err, cu.ErrorInvalidValue, "download", "range [3:11]")
		check(t, m.close())
		if k.name != "pageable" {
			_, err = ferry.Download(m.Memory)
			wantError(t, err, ferry.ErrClosed, "download", "buffer")
		}
	}

	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Upload(g, make([]byte, 10)))(t)
	var uploadErr, downloadErr error
	check(t, s.HostFunc(func() {
		_, uploadErr = ferry.Upload(g, []byte{1})
		_, downloadErr = ferry.Download(d)
	}))
	check(t, s.Wait(context.Background()))
	wantError(t, uploadErr, cu.ErrorNotPermitted, "allocate")
	wantError(t, downloadErr, cu.ErrorNotPermitted)
	closeAll(t, d, s)
}

// leakDriver counts the device memory and the streams that exist, and fails one call.
type leakDriver struct {
	cu.Driver
	left            atomic.Int64 // the call that fails, counted from 1; 0 for none
	memory, streams atomic.Int64
}

func (d *leakDriver) Unwrap() cu.Driver { return d.Driver }

func (d *leakDriver) fail() error {
	if d.left.Add(-1) == 0 {
		return cu.ErrorNotMapped
	}
	return nil
}

func (d *leakDriver) MemAlloc(ctx cu.Context, n uintptr) (p cu.DevicePtr, err error) {
	if err = d.fail(); err == nil {
		p, err = d.Driver.MemAlloc(ctx, n)
		d.memory.Add(1)
	}
	return p, err
}

func (d *leakDriver) MemFree(ctx cu.Context, p cu.DevicePtr) error {
	d.memory.Add(-1)
	return d.Driver.MemFree(ctx, p)
}

func (d *leakDriver) StreamCreate(ctx cu.Context, flags cu.StreamFlags) (s cu.Stream, err error) {
	if err = d.fail(); err == nil {
		s, err = d.Driver.StreamCreate(ctx, flags)
		d.streams.Add(1)
	}
	return s, err
}

func (d *leakDriver) StreamDestroy(ctx cu.Context, s cu.Stream) error {
	d.streams.Add(-1)
	return d.Driver.StreamDestroy(ctx, s)
}

func (d *leakDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if err := d.fail(); err != nil {
		return err
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (d *leakDriver) MemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	if err := d.fail(); err != nil {
		return err
	}
	return d.Driver.MemcpyDtoHAsync(ctx, dst, src, n, s)
}

// TestUploadFails: when any call of the driver fails, Upload and Download return the error.
// No memory and no stream is left, and the next Upload and Download work.
func TestUploadFails(t *testing.T) {
	for _, n := range []int{100, 3 << 20} {
		d := &leakDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
		g := openDriver(t, d)
		want := make([]byte, n)
		fillRandom(want)
		failed := 0
		for nth := int64(1); ; nth++ {
			d.left.Store(nth)
			buffer, err := ferry.Upload(g, want)
			if d.left.Load() > 0 { // there were fewer calls
				check(t, err)
				closeAll(t, buffer)
				break
			}
			failed++
			wantError(t, err, cu.ErrorNotMapped)
			if buffer != nil {
				t.Errorf("%d bytes, call %d fails: Upload returns %v", n, nth, buffer)
			}
			if m, s := d.memory.Load(), d.streams.Load(); m != 0 || s != 0 {
				t.Errorf("%d bytes, call %d fails: %d allocations and %d streams are left", n, nth, m, s)
			}
		}
		if failed < 3 {
			t.Errorf("%d bytes: %d calls could fail, want those for memory, a stream and a copy", n, failed)
		}
		d.left.Store(0)
		buffer := must(ferry.Upload(g, want))(t)
		for nth := int64(1); ; nth++ {
			d.left.Store(nth)
			got, err := ferry.Download(buffer)
			if d.left.Load() > 0 {
				check(t, err)
				wantBytes(t, got, want)
				break
			}
			wantError(t, err, cu.ErrorNotMapped)
			if got != nil {
				t.Errorf("%d bytes, call %d fails: Download returns %d elements with the error", n, nth, len(got))
			}
			if s := d.streams.Load(); s != 0 {
				t.Errorf("%d bytes, call %d fails: %d streams are left", n, nth, s)
			}
		}
		closeAll(t, buffer)
		if m := d.memory.Load(); m != 0 {
			t.Errorf("%d bytes: %d allocations are left", n, m)
		}
	}
}

// TestUploadAfterFault: when the context is lost, Upload and Download return the driver's
// error.
func TestUploadAfterFault(t *testing.T) {
	g := must(ferry.Open("soft"))(t)
	d := must(ferry.Upload(g, make([]float32, 10)))(t)
	host := must(ferry.AllocHost[float32](g, 10, &ferry.HostOptions{Mapped: true}))(t)
	k := must(must(ferry.Load(g, []byte(kernels.PTX), nil))(t).Kernel("increment"))(t)
	check(t, g.DefaultStream().Launch(k, ferry.Cover(1<<20, 256), host, uint64(1<<20)))
	wantError(t, g.DefaultStream().Wait(context.Background()), cu.ErrorIllegalAddress)
	_, err := ferry.Upload(g, make([]float32, 10))
	wantError(t, err, cu.ErrorIllegalAddress)
	_, err = ferry.Download(d)
	wantError(t, err, cu.ErrorIllegalAddress)
	_, err = ferry.Download(host)
	wantError(t, err, cu.ErrorIllegalAddress, "host access", "page-locked buffer")
	_ = errors.Join(d.Close(), host.Close(), g.Close()) // the context is lost
}
