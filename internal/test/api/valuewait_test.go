package api

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestWaitValue: work behind a wait for a value sees what another stream wrote before it wrote the
// value, and what Go code wrote before its store. Both sizes of words, and every condition.
func TestWaitValue(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		t.Run(schedule.String(), func(t *testing.T) {
			g := openSoft(t, "h200", schedule)
			a, b := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			defer closeAll(t, a, b)
			waitValue[uint32](t, g, a, b)
			waitValue[uint64](t, g, a, b)
		})
	}
}

func waitValue[T uint32 | uint64](t *testing.T, g *ferry.GPU, a, b *ferry.Stream) {
	word, data := must(ferry.Alloc[T](g, 2))(t), must(ferry.Alloc[T](g, 1000))(t)
	got := must(ferry.AllocHost[T](g, 1000, nil))(t)
	defer closeAll(t, word, data, got)
	check(t, errors.Join(ferry.Fill(a, word, 0), a.Wait(t.Context())))
	from := must(ferry.AllocHost[T](g, 1003, nil))(t)
	defer closeAll(t, from)
	high := ^T(0) - ^T(0)>>1
	for i := range from.Slice() {
		from.Slice()[i] = high + T(i)
	}
	for i := T(0); i < 3; i++ {
		check(t, errors.Join(
			ferry.Copy(a, data, from.Range(int(i), int(i)+1000)),
			ferry.WriteValue(a, word.Range(1, 2), i+7),
			ferry.WaitValue(b, word.Range(1, 2), cu.StreamWaitValueGEQ, i+7),
			ferry.Copy(b, got, data),
			b.Wait(t.Context())))
		for j, v := range got.Slice() {
			if want := high + i + T(j); v != want {
				t.Fatalf("round %d: element %d is %#x behind the wait, want %#x", i, j, v, want)
			}
		}
	}
	for until, value := range map[cu.StreamWaitValueFlags]T{cu.StreamWaitValueGEQ: 9, cu.StreamWaitValueEQ: 9, cu.StreamWaitValueAND: 1, cu.StreamWaitValueNOR: 1} {
		check(t, errors.Join(ferry.WaitValue(b, word.Range(1, 2), until, value), b.Wait(t.Context())))
	}
	fromHost(t, g, b, data)
}

// fromHost lets a stream wait for a value that Go code stores.
func fromHost[T uint32 | uint64](t *testing.T, g *ferry.GPU, s *ferry.Stream, data *ferry.Device[T]) {
	flag, src := must(ferry.AllocHost[uint32](g, 1, &ferry.HostOptions{Mapped: true}))(t), must(ferry.AllocHost[T](g, 1000, nil))(t)
	defer closeAll(t, flag, src)
	word, from := flag.Slice(), src.Slice()
	atomic.StoreUint32(&word[0], 0)
	check(t, errors.Join(ferry.WaitValue(s, flag, cu.StreamWaitValueEQ, 5), ferry.Copy(s, data, src)))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := s.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the value: %v, want the end of the context", err)
	}
	for i := range from {
		from[i] = T(i) + 77
	}
	atomic.StoreUint32(&word[0], 5)
	check(t, s.Wait(t.Context()))
	for i, v := range must(ferry.Download(data))(t) {
		if v != T(i)+77 {
			t.Fatalf("element %d is %d, want %d", i, v, i+77)
		}
	}
}

// TestWaitValueInAGraph: every launch of a graph waits, and a buffer of it can be closed before.
func TestWaitValueInAGraph(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	flag := must(ferry.AllocHost[uint32](g, 2, &ferry.HostOptions{Mapped: true}))(t)
	word := flag.Slice()
	graph := must(s.Capture(func(s *ferry.Stream) error {
		return errors.Join(ferry.WaitValue(s, flag, cu.StreamWaitValueGEQ, 4), ferry.WriteValue(s, flag.Range(1, 2), 6))
	}))(t)
	for range 3 {
		atomic.StoreUint32(&word[0], 3)
		atomic.StoreUint32(&word[1], 0)
		check(t, graph.Launch(s))
		for range 10 {
			if done := must(s.Done())(t); done || atomic.LoadUint32(&word[1]) != 0 {
				t.Fatalf("the launch did not wait: done %t, word %d", done, atomic.LoadUint32(&word[1]))
			}
		}
		atomic.StoreUint32(&word[0], 4)
		check(t, s.Wait(t.Context()))
		if got := atomic.LoadUint32(&word[1]); got != 6 {
			t.Fatalf("the work behind the wait wrote %d, want 6", got)
		}
	}
	closeAll(t, flag, graph, s)
}

// TestWaitValueRefused: the errors name the buffer and what it lacks.
func TestWaitValueRefused(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	managed := must(ferry.AllocManaged[uint32](g, 4, nil))(t)
	bytes := make([]uint64, 1024)
	fixed := must(ferry.Register(g, bytes, &ferry.RegisterOptions{ReadOnly: true}))(t)
	defer closeAll(t, managed, fixed, s)
	wantError(t, ferry.WaitValue(s, managed, cu.StreamWaitValueEQ, 0), cu.ErrorInvalidValue, "wait for a value in", "managed memory")
	wantError(t, ferry.WriteValue(s, managed, 0), cu.ErrorInvalidValue, "write a value to", "managed memory")
	wantError(t, ferry.WriteValue(s, fixed, 0), cu.ErrorInvalidValue, "is read-only")
	wantError(t, ferry.WaitValue(s, fixed, cu.StreamWaitValueFlush, 0), cu.ErrorNotSupported, "FLUSH_REMOTE_WRITES")
	old := openSoft(t, "fermi-c2050", softgpu.Eager)
	word, so := must(ferry.Alloc[uint32](old, 1))(t), must(ferry.NewStream(old, nil))(t)
	defer closeAll(t, word, so)
	wantError(t, ferry.WaitValue(so, word, cu.StreamWaitValueEQ, 0), cu.ErrorNotSupported, "cuStreamWaitValue32", "CUDA 11.7")
	closed := must(ferry.Alloc[uint32](g, 1))(t)
	closeAll(t, closed)
	wantError(t, ferry.WaitValue(s, closed, cu.StreamWaitValueEQ, 0), ferry.ErrClosed)
}
