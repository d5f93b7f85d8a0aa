package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestCopyContext: with a context that does not end, CopyContext copies the same bytes as
// Copy, between all kinds of memory.
func TestCopyContext(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var noContext context.Context // nil
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			for _, n := range []int{0, 1, 40_000, 100_003} { // on both sides of what goes through the staging ring
				if n == 0 && (from.name == "registered" || to.name == "registered") {
					continue
				}
				src, dst := must(from.make(g, n))(t), must(to.make(g, n))(t)
				want, before := make([]byte, n), make([]byte, n)
				for _, ctx := range []context.Context{ctx, noContext} {
					fillRandom(want)
					fillRandom(before)
					src.set(t, s, want)
					dst.set(t, s, before)
					check(t, ferry.CopyContext(ctx, s, dst.Memory, src.Memory))
					if got := dst.get(t, s); !bytes.Equal(got, want) {
						t.Errorf("%d bytes from %s to %s: the bytes differ", n, from.name, to.name)
					}
				}
				check(t, errors.Join(src.close(), dst.close()))
			}
		}
	}
	large, back := make([]byte, 20<<20), make([]byte, 20<<20)
	fillRandom(large)
	d := must(ferry.Alloc[byte](g, len(large)))(t)
	check(t, ferry.CopyContext(ctx, s, d, ferry.Pageable(large)))
	check(t, ferry.CopyContext(ctx, s, ferry.Pageable(back), d))
	wantBytes(t, back, large)
	closeAll(t, d, s)
}

// TestCopyContextCancelledBefore: nothing is copied, and nothing is in flight.
func TestCopyContextCancelledBefore(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeConcurrentManagedAccess)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			src, dst := must(from.make(g, 1000))(t), must(to.make(g, 1000))(t)
			want := make([]byte, 1000)
			fillRandom(want)
			src.set(t, s, make([]byte, 1000))
			dst.set(t, s, want)
			check(t, s.Wait(context.Background()))
			open := gate(t, s)
			wantError(t, ferry.CopyContext(ctx, s, dst.Memory, src.Memory), context.Canceled, "copy to ", " from ", " on stream 1")
			if src.slice != nil {
				src.slice() // must return although the gate is shut
			}
			open()
			wantBytes(t, dst.get(t, s), want)
			check(t, errors.Join(src.close(), dst.close()))
		}
	}
	wantError(t, ferry.CopyContext[byte](ctx, nil, nil, nil), context.Canceled, "no buffer", "no stream")
	closeAll(t, s)
}

// soonAfter is how long CopyContext may take to return after its context has ended. It takes
// milliseconds on a machine that is not busy.
const soonAfter = 5 * time.Second

// TestCopyContextBlockedStream: where a copy would wait for a stream that is blocked, the end
// of the context ends the wait. The stream and the buffers work afterwards.
func TestCopyContextBlockedStream(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		t.Run(fmt.Sprint(schedule), func(t *testing.T) { testCopyContextBlocked(t, openSoft(t, "h200", schedule)) })
	}
	t.Run("device=test", func(t *testing.T) { testCopyContextBlocked(t, openTest(t)) })
}

func testCopyContextBlocked(t *testing.T, g *ferry.GPU) {
	for _, x := range []struct {
		from, to string
		bytes    int
	}{
		{"pageable", "device", 64 << 20}, // more than the staging ring has room for
		{"pageable", "managed", 64 << 20},
		{"device", "pageable", 100},
		{"device", "pageable", 300_000},
		{"device", "pageable", 20 << 20},
		{"managed", "pageable", 100},
		{"host", "host", 100},
		{"host", "registered", 100_000},
		{"host", "pageable", 100},
		{"pageable", "registered", 300_000},
		{"pageable", "pageable", 100},
	} {
		name := fmt.Sprintf("%d bytes from %s to %s memory", x.bytes, x.from, x.to)
		src, dst := must(kindOf(t, x.from).make(g, x.bytes))(t), must(kindOf(t, x.to).make(g, x.bytes))(t)
		s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		want := make([]byte, x.bytes)
		fillRandom(want)
		src.set(t, s, want)
		check(t, s.Wait(context.Background()))
		if !ferry.Synchronous(s, dst.Memory, src.Memory) {
			t.Errorf("%s: the copy is asynchronous", name)
		}
		open := gate(t, s)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- ferry.CopyContext(ctx, s, dst.Memory, src.Memory) }()
		select {
		case err := <-done:
			t.Errorf("%s: CopyContext returned %v before the context ended", name, err)
			done <- err
		case <-time.After(shortWait):
		}
		cancel()
		select {
		case err := <-done:
			wantError(t, err, context.Canceled, "copy ", " on stream")
		case <-time.After(soonAfter):
			t.Errorf("%s: CopyContext did not return after the end of the context", name)
			open()
			<-done
			open = func() {}
		}
		open()
		check(t, s.Wait(context.Background()))
		check(t, ferry.Copy(s, dst.Memory, src.Memory))
		if !bytes.Equal(dst.get(t, s), want) {
			t.Errorf("%s: a copy after the cancelled one differs", name)
		}
		check(t, errors.Join(src.close(), dst.close(), s.Close()))
	}
}

// TestCopyContextBusyRing: the same holds when a copy on another blocked stream has all slots
// of the staging ring.
func TestCopyContextBusyRing(t *testing.T) {
	g := openTest(t)
	other, s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	const n = 64 << 20
	a, b := must(ferry.Alloc[byte](g, n))(t), must(ferry.Alloc[byte](g, n))(t)
	want, got, all := make([]byte, n), make([]byte, n), make([]byte, n)
	fillRandom(want)
	check(t, errors.Join(ferry.Copy(s, a, ferry.Pageable(want)), ferry.Copy(s, b, ferry.Pageable(want)), s.Wait(context.Background())))
	openOther, open := gate(t, other), gate(t, s)
	occupant := make(chan error, 1)
	go func() { occupant <- ferry.Copy(other, ferry.Pageable(all), a) }()
	time.Sleep(shortWait) // by then it has all slots, and waits
	for name, pair := range map[string]ferry.Pair[byte]{
		"to the device":   {Dst: b, Src: ferry.Pageable(want)},
		"from the device": {Dst: ferry.Pageable(got), Src: b},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), shortWait)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- ferry.CopyContext(ctx, s, pair.Dst, pair.Src) }()
		select {
		case err := <-done:
			wantError(t, err, context.DeadlineExceeded, "copy 64.0 MiB")
		case <-time.After(soonAfter):
			t.Fatalf("%s: CopyContext did not return after the end of the context", name)
		}
	}
	open()
	openOther()
	check(t, <-occupant)
	wantBytes(t, all, want)
	check(t, ferry.Copy(s, ferry.Pageable(got), b))
	wantBytes(t, got, want)
	closeAll(t, a, b, other, s)
}

// cancelDriver ends a context when the device gets its nth copy.
type cancelDriver struct {
	cu.Driver
	left   atomic.Int64
	cancel context.CancelFunc
}

func (d *cancelDriver) Unwrap() cu.Driver { return d.Driver }

func (d *cancelDriver) count() {
	if d.left.Add(-1) == 0 {
		d.cancel()
	}
}

func (d *cancelDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	d.count()
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (d *cancelDriver) MemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	d.count()
	return d.Driver.MemcpyDtoHAsync(ctx, dst, src, n, s)
}

// TestCopyContextCancelledDuring: when the context ends in the middle of a large copy, the
// error says at which byte. All bytes before it are copied, and the GPU works on.
func TestCopyContextCancelledDuring(t *testing.T) {
	d := &cancelDriver{Driver: openTest(t).Driver()}
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	const n = 96 << 20
	device, scratch := must(ferry.Alloc[byte](g, n))(t), make([]byte, n)
	want := make([]byte, n)
	for i := range want {
		want[i] = byte(i*7 + i>>12)
	}
	for _, in := range []bool{true, false} {
		dst, src := ferry.Memory[byte](device), ferry.Memory[byte](ferry.Pageable(want))
		if in {
			check(t, ferry.Fill(s, device, 0xee))
		} else {
			check(t, ferry.Copy(s, dst, src))
			dst, src = ferry.Pageable(scratch), device
		}
		check(t, s.Wait(context.Background()))
		ctx, cancel := context.WithCancel(context.Background())
		d.cancel = cancel
		d.left.Store(5)
		err := ferry.CopyContext(ctx, s, dst, src)
		wantError(t, err, context.Canceled, "copy 96.0 MiB", "byte ")
		var copied int
		if _, scanErr := fmt.Sscanf(after(fmt.Sprint(err), "byte "), "%d", &copied); scanErr != nil || copied >= n {
			t.Fatalf("to the device %v: the copy was not cancelled in the middle: %v", in, err)
		}
		got := scratch
		if in {
			got = must(ferry.Download(device))(t)
		}
		if in && copied == 0 {
			t.Errorf("nothing was copied before the context ended: %v", err)
		}
		wantBytes(t, got[:copied], want[:copied])
		if in && bytes.Equal(got, want) {
			t.Error("all was copied although the context has ended")
		}
		check(t, ferry.CopyContext(context.Background(), s, dst, src))
		if in {
			got = must(ferry.Download(device))(t)
		}
		wantBytes(t, got, want)
	}
	closeAll(t, device, s)
}

// after returns what follows the last part in a text.
func after(text, part string) string { return text[strings.LastIndex(text, part)+len(part):] }

// kindOf returns the kind of memory with a name.
func kindOf(t *testing.T, name string) bytesKind {
	t.Helper()
	for _, k := range bytesKinds {
		if k.name == name {
			return k
		}
	}
	t.Fatalf("there is no %s memory", name)
	return bytesKind{}
}
