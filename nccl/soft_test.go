package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	hazards "github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/nccl"
)

// world is ranks of this process, one on each GPU of a software machine.
type world struct {
	*testing.T
	comms   []*nccl.Comm
	streams []*ferry.Stream
}

// newWorld opens n ranks. They are closed at the end, if the test has not done so.
func newWorld(t *testing.T, n int, o *nccl.Options) *world {
	t.Helper()
	gpus, err := ferry.OpenAll(fmt.Sprintf("soft:h200*%d", n))
	check(t, err)
	if o == nil {
		o = &nccl.Options{Timeout: 20 * time.Second}
	}
	w := &world{T: t}
	w.comms, err = nccl.OpenAll(context.Background(), gpus, o)
	check(t, err)
	for _, g := range gpus {
		s, err := ferry.NewStream(g, nil)
		check(t, err)
		w.streams = append(w.streams, s)
	}
	t.Cleanup(func() {
		w.each(func(r int) error { return w.comms[r].Close() })
		for i, g := range gpus {
			check(t, w.streams[i].Close())
			check(t, g.Close())
		}
	})
	return w
}

// each calls f for all ranks at once.
func (w *world) each(f func(rank int) error) {
	w.Helper()
	errs := make([]error, len(w.comms))
	var all sync.WaitGroup
	for r := range w.comms {
		all.Go(func() { errs[r] = f(r) })
	}
	all.Wait()
	check(w, errors.Join(errs...))
}

// alloc returns memory of a rank with the values.
func alloc[T any](w *world, rank int, values []T) *ferry.Device[T] {
	w.Helper()
	m, err := ferry.Alloc[T](w.comms[rank].GPU(), len(values))
	check(w, err)
	check(w, ferry.Copy(w.streams[rank], m, ferry.Pageable(values)))
	w.Cleanup(func() { check(w, m.Close()) })
	return m
}

// values waits for a rank and returns what memory holds.
func values[T any](w *world, rank int, m ferry.Memory[T]) []T {
	w.Helper()
	check(w, w.comms[rank].Wait(context.Background(), w.streams[rank]))
	got := make([]T, m.Len())
	check(w, ferry.Copy(w.streams[rank], ferry.Pageable(got), m))
	check(w, w.streams[rank].Wait(context.Background()))
	return got
}

// counted returns n numbers from first.
func counted(first, n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(first + i)
	}
	return x
}

// repeat returns n times x.
func repeat[T any](x T, n int) []T { return slices.Repeat([]T{x}, n) }

// TestCollectives: each call does what its comment says, by three ranks, in place and out of
// place. Package soft compares all types, operations and sizes.
func TestCollectives(t *testing.T) {
	const n = 6
	// Rank r has the numbers 100r ... 100r+n-1, or those of 3n elements.
	mine := func(r int) []int32 { return counted(100*r, n) }
	long := func(r int) []int32 { return counted(100*r, 3*n) }
	all := slices.Concat(mine(0), mine(1), mine(2))
	sum := func(from, n int) []int32 {
		x := make([]int32, n)
		for i := range x {
			x[i] = int32(300 + 3*(from+i))
		}
		return x
	}
	type memory = ferry.Memory[int32]
	for _, test := range []struct {
		name   string
		src    func(r int) []int32
		dst    int // elements
		in, at func(r int) [2]int
		call   func(c *nccl.Comm, s *ferry.Stream, dst, src memory) error
		want   func(r int) []int32 // nil: not written
	}{
		{"AllReduce", mine, n, nil, nil, func(c *nccl.Comm, s *ferry.Stream, dst, src memory) error {
			return nccl.AllReduce(c, s, dst, src, nccl.Sum)
		}, func(int) []int32 { return sum(0, n) }},
		{"Broadcast", mine, n, nil, nil, func(c *nccl.Comm, s *ferry.Stream, dst, src memory) error {
			return nccl.Broadcast(c, s, dst, src, 1)
		}, func(int) []int32 { return mine(1) }},
		{"Reduce", mine, n, nil, nil, func(c *nccl.Comm, s *ferry.Stream, dst, src memory) error {
			return nccl.Reduce(c, s, dst, src, nccl.Max, 2)
		}, func(r int) []int32 {
			if r != 2 {
				return nil
			}
			return mine(2)
		}},
		{"AllGather", mine, 3 * n, nil, func(r int) [2]int { return [2]int{r * n, (r + 1) * n} }, func(c *nccl.Comm, s *ferry.Stream, dst, src memory) error {
			return nccl.AllGather(c, s, dst, src)
		}, func(int) []int32 { return all }},
		{"ReduceScatter", long, n, func(r int) [2]int { return [2]int{r * n, (r + 1) * n} }, nil, func(c *nccl.Comm, s *ferry.Stream, dst, src memory) error {
			return nccl.ReduceScatter(c, s, dst, src, nccl.Sum)
		}, func(r int) []int32 { return sum(r*n, n) }},
		{"AllToAll", long, 3 * n, func(int) [2]int { return [2]int{} }, nil, func(c *nccl.Comm, s *ferry.Stream, dst, src memory) error {
			return nccl.AllToAll(c, s, dst, src)
		}, func(r int) []int32 { return slices.Concat(counted(r*n, n), counted(100+r*n, n), counted(200+r*n, n)) }},
		{"Gather", mine, 3 * n, nil, func(r int) [2]int { return [2]int{r * n, (r + 1) * n} }, func(c *nccl.Comm, s *ferry.Stream, dst, src memory) error {
			return nccl.Gather(c, s, dst, src, 1)
		}, func(r int) []int32 {
			if r != 1 {
				return nil
			}
			return all
		}},
		{"Scatter", long, n, func(r int) [2]int { return [2]int{r * n, (r + 1) * n} }, nil, func(c *nccl.Comm, s *ferry.Stream, dst, src memory) error {
			return nccl.Scatter(c, s, dst, src, 0)
		}, func(r int) []int32 { return counted(r*n, n) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 3, nil)
			for _, inPlace := range []bool{false, true} {
				if inPlace && test.name == "AllToAll" {
					continue
				}
				w.each(func(r int) error {
					src := alloc(w, r, test.src(r))
					var dst, from memory = alloc(w, r, repeat(int32(-1), test.dst)), src
					whole := dst // what is compared
					switch {
					case inPlace && test.at != nil: // src is a part of dst
						at := test.at(r)
						big := dst.(*ferry.Device[int32])
						part := big.Range(at[0], at[1])
						check(t, ferry.Copy(w.streams[r], part, src))
						from = part
					case inPlace && test.in != nil: // dst is a part of src
						at := test.in(r)
						dst = src.Range(at[0], at[1])
						whole = dst
					case inPlace:
						dst, whole = src, src
					}
					if err := test.call(w.comms[r], w.streams[r], dst, from); err != nil {
						return err
					}
					want := test.want(r)
					if got := values(w, r, whole); want != nil && !slices.Equal(got, want) {
						t.Errorf("rank %d, in place %v: got %v, want %v", r, inPlace, got, want)
					} else if want == nil && !inPlace && got[0] != -1 {
						t.Errorf("rank %d: got %v, want nothing written", r, got)
					}
					return nil
				})
			}
		})
	}
}

// TestSendRecv: ranks pass numbers around a ring, by groups and by one group of all.
func TestSendRecv(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.each(func(r int) error {
		src, dst := alloc(w, r, counted(10*r, 4)), alloc(w, r, make([]int32, 4))
		var g nccl.Group
		c := w.comms[r]
		check(t, nccl.Send(g.For(c), w.streams[r], src, (r+1)%3))
		check(t, nccl.Recv(g.For(c), w.streams[r], dst, (r+2)%3))
		if err := g.Submit(); err != nil {
			return err
		}
		if got := values(w, r, dst); !slices.Equal(got, counted(10*((r+2)%3), 4)) {
			t.Errorf("rank %d: %v", r, got)
		}
		return nil
	})
	var g nccl.Group
	var dsts []*ferry.Device[int32]
	for r, c := range w.comms {
		dsts = append(dsts, alloc(w, r, make([]int32, 4)))
		check(t, nccl.Recv(g.For(c), w.streams[r], dsts[r], (r+1)%3))
		check(t, nccl.Send(g.For(c), w.streams[r], alloc(w, r, counted(7*r, 4)), (r+2)%3))
	}
	check(t, g.Submit())
	check(t, g.Submit()) // it is empty now
	for r := range w.comms {
		if got := values(w, r, dsts[r]); !slices.Equal(got, counted(7*((r+1)%3), 4)) {
			t.Errorf("rank %d: %v", r, got)
		}
	}
}

// TestStructs: elements of other types are bytes.
func TestStructs(t *testing.T) {
	type point struct{ X, Y float64 }
	w := newWorld(t, 2, nil)
	w.each(func(r int) error {
		m := alloc(w, r, repeat(point{float64(r), 2}, 3))
		check(t, nccl.Broadcast(w.comms[r], w.streams[r], m, m, 1))
		if got := values(w, r, m); got[2] != (point{1, 2}) {
			t.Errorf("rank %d: %v", r, got)
		}
		return nil
	})
}

// TestScaledSum: each rank's elements are multiplied by its factor.
func TestScaledSum(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.each(func(r int) error {
		op, err := nccl.ScaledSum(w.comms[r], float32(r+1)/2)
		check(t, err)
		m := alloc(w, r, repeat(float32(8), 5))
		check(t, nccl.AllReduce(w.comms[r], w.streams[r], m, m, op))
		if got := values(w, r, m); got[4] != 4+8 {
			t.Errorf("rank %d: %v, want 12", r, got)
		}
		whole := alloc(w, r, repeat(1, 5))
		_ = whole
		wantRefused(t, nccl.AllReduce(w.comms[r], w.streams[r], alloc(w, r, make([]float64, 2)), alloc(w, r, make([]float64, 2)), op), "was made for elements of type float32, not float64")
		return nil
	})
}

func wantRefused(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want one with %q", err, text)
	}
}

// TestRefused: wrong arguments are refused before the call, with what is wrong.
func TestRefused(t *testing.T) {
	w := newWorld(t, 2, nil)
	c, s := w.comms[0], w.streams[0]
	m, far := alloc(w, 0, make([]float32, 8)), alloc(w, 1, make([]float32, 8))
	host, err := ferry.AllocHost[float32](c.GPU(), 8, nil)
	check(t, err)
	defer host.Close()
	closed, err := ferry.Alloc[float32](c.GPU(), 8)
	check(t, err)
	check(t, closed.Close())
	for want, err := range map[string]error{
		"no communicator given (nil)":                                             nccl.AllReduce((*nccl.Comm)(nil), s, m, m, nccl.Sum),
		"no stream given (nil)":                                                   nccl.AllReduce(c, nil, m, m, nccl.Sum),
		"belongs to soft:h200*2 device 1, and the communicator to":                nccl.AllReduce(c, w.streams[1], m, m, nccl.Sum),
		"is memory of another GPU":                                                nccl.AllReduce(c, s, far, m, nccl.Sum),
		"is pageable":                                                             nccl.AllReduce(c, s, m, ferry.Pageable(make([]float32, 8)), nccl.Sum),
		"8 elements are sent and 7 received: want the same number":                nccl.AllReduce(c, s, m.Range(0, 7), m, nccl.Sum),
		"overlap, but not as in place":                                            nccl.AllReduce(c, s, m.Range(0, 7), m.Range(1, 8), nccl.Sum),
		"operation 17 is not one of":                                              nccl.AllReduce(c, s, m, m, nccl.Op(17)),
		"operation -1 is not one of":                                              nccl.AllReduce(c, s, m, m, nccl.Op(-1)),
		"rank 2 is not one of the 2 ranks":                                        nccl.Broadcast(c, s, m, m, 2),
		"rank -1 is not one of the 2 ranks":                                       nccl.Send(c, s, m, -1),
		"no memory to send given (nil)":                                           nccl.Broadcast(c, s, m, nil, 0),
		"no memory for the result given (nil)":                                    nccl.Recv[float32](c, s, nil, 1),
		"8 elements are received for 2 ranks with 3 each: want 2 times as many":   nccl.AllGather(c, s, m, m.Range(0, 3)),
		"8 elements are sent for 2 ranks with 8 each: want 2 times as many":       nccl.ReduceScatter(c, s, m, m, nccl.Sum),
		"7 elements are sent and 7 received: want the same number, a multiple of": nccl.AllToAll(c, s, m.Range(0, 7), m.Range(0, 7)),
		"all-to-all by rank 0 of 2":                                               nccl.AllToAll(c, s, m, m),
		"submit a group: none given (nil)":                                        (*nccl.Group)(nil).Submit(),
	} {
		wantRefused(t, err, want)
	}
	if err := nccl.AllReduce(c, s, closed, m, nccl.Sum); !errors.Is(err, ferry.ErrClosed) {
		t.Errorf("a closed buffer: %v", err)
	}
	if got := values(w, 0, m); got[0] != 0 {
		t.Error(got)
	}
}

// TestVerify: with Verify, and on software always, a rank that calls with something else is named.
func TestDifferentCalls(t *testing.T) {
	w := newWorld(t, 2, &nccl.Options{Timeout: 5 * time.Second, Verify: true, Name: "pair"})
	errs := make([]error, 2)
	w.each(func(r int) error {
		m := alloc(w, r, make([]float32, 4+r))
		errs[r] = nccl.AllReduce(w.comms[r], w.streams[r], m, m, nccl.Sum)
		return nil
	})
	for r, err := range errs {
		wantRefused(t, err, "call 1: ")
		wantRefused(t, err, fmt.Sprintf("rank %d makes all-reduce of %d elements of type float32 by sum", 1-r, 4+1-r))
	}
}

// TestInFlight: memory of a call is in flight until all ranks have called.
func TestInFlight(t *testing.T) {
	w := newWorld(t, 2, nil)
	a, b := alloc(w, 0, repeat(int32(1), 4)), alloc(w, 1, repeat(int32(2), 4))
	host, err := ferry.AllocHost[int32](w.comms[0].GPU(), 4, nil)
	check(t, err)
	check(t, nccl.AllReduce(w.comms[0], w.streams[0], a, a, nccl.Sum))
	check(t, ferry.Copy(w.streams[0], host, a))
	if done, err := w.streams[0].Done(); done || err != nil {
		t.Errorf("the stream is done before the other rank has called: %v, %v", done, err)
	}
	closed := make(chan error)
	go func() { closed <- a.Close() }()
	select {
	case err := <-closed:
		t.Errorf("the buffer was closed while in flight: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	check(t, nccl.AllReduce(w.comms[1], w.streams[1], b, b, nccl.Sum))
	check(t, <-closed)
	if got := host.Slice(); got[0] != 3 {
		t.Errorf("got %d, want 3", got[0])
	}
	check(t, host.Close())
}

// TestAbort: a rank that aborts ends what the others wait for. They name it, and memory is free.
func TestAbort(t *testing.T) {
	w := newWorld(t, 3, nil)
	for r := range 2 {
		m := alloc(w, r, make([]float32, 100))
		check(t, nccl.AllReduce(w.comms[r], w.streams[r], m, m, nccl.Sum))
	}
	check(t, w.comms[2].Abort())
	for r := range 2 {
		err := w.comms[r].Wait(context.Background(), w.streams[r])
		if err == nil || !strings.Contains(err.Error(), "rank 2 has aborted") {
			t.Errorf("rank %d: got %v, want that rank 2 has aborted", r, err)
		}
		m := alloc(w, r, make([]float32, 1))
		if err := nccl.AllReduce(w.comms[r], w.streams[r], m, m, nccl.Sum); err == nil || !strings.Contains(err.Error(), "rank 2 has aborted") {
			t.Errorf("rank %d: got %v after the end", r, err)
		}
		check(t, w.comms[r].Abort())
	}
}

// TestWaitEnds: a context that ends aborts the communicator, and the stream is free.
func TestWaitEnds(t *testing.T) {
	w := newWorld(t, 2, nil)
	m := alloc(w, 0, make([]float32, 100))
	check(t, nccl.AllReduce(w.comms[0], w.streams[0], m, m, nccl.Sum))
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	if err := w.comms[0].Wait(ctx, w.streams[0]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	check(t, w.streams[0].Wait(context.Background()))
	check(t, w.comms[1].Abort()) // Close would return why the other rank has aborted
}

// TestAbsent: a rank that does not call is named after the timeout.
func TestAbsent(t *testing.T) {
	w := newWorld(t, 3, &nccl.Options{Timeout: 100 * time.Millisecond})
	for r := range 2 {
		m := alloc(w, r, make([]float32, 100))
		check(t, nccl.AllReduce(w.comms[r], w.streams[r], m, m, nccl.Sum))
	}
	err := w.comms[0].Wait(context.Background(), w.streams[0])
	if err == nil || !strings.Contains(err.Error(), "rank 2") {
		t.Errorf("got %v, want that rank 2 has not called", err)
	}
	for _, c := range w.comms {
		check(t, c.Abort()) // Close would return the error
	}
}

// TestSplit: odd and even ranks get communicators of their own, in the order of the keys.
func TestSplit(t *testing.T) {
	w := newWorld(t, 4, nil)
	w.each(func(r int) error {
		part, err := w.comms[r].Split(context.Background(), r%2, -r, "half")
		check(t, err)
		if part.Size() != 2 || part.Rank() != 1-r/2 {
			t.Errorf("rank %d became %v", r, part)
		}
		m := alloc(w, r, repeat(int32(r), 3))
		check(t, nccl.AllReduce(part, w.streams[r], m, m, nccl.Sum))
		if got := values(w, r, m); got[0] != int32(r%2+r%2+2) {
			t.Errorf("rank %d: %v", r, got)
		}
		check(t, part.Close())
		none, err := w.comms[r].Split(context.Background(), -1, 0, "none")
		if none != nil || err != nil {
			t.Errorf("color -1: %v, %v", none, err)
		}
		return nil
	})
}

// TestRegister: registered memory stays until the registration is closed.
func TestRegister(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.each(func(r int) error {
		m := alloc(w, r, repeat(int32(r), 3))
		reg, err := nccl.Register(w.comms[r], m)
		check(t, err)
		check(t, nccl.AllReduce(w.comms[r], w.streams[r], m, m, nccl.Sum))
		if got := values(w, r, m); got[0] != 1 {
			t.Errorf("rank %d: %v", r, got)
		}
		check(t, reg.Close())
		check(t, reg.Close())
		_, err = nccl.Register(w.comms[r], ferry.Pageable(make([]int32, 2)))
		wantRefused(t, err, "want device memory")
		return nil
	})
}

// TestCheck: the check of memory knows that a call has written what the program then reads.
func TestCheck(t *testing.T) {
	t.Setenv("FERRY_CHECK", "memory")
	w := newWorld(t, 2, nil)
	w.each(func(r int) error {
		dst, err := ferry.Alloc[int32](w.comms[r].GPU(), 8)
		check(t, err)
		check(t, nccl.AllGather(w.comms[r], w.streams[r], dst, alloc(w, r, counted(r, 4))))
		if got := values(w, r, dst); got[7] != 4 {
			t.Errorf("rank %d: %v", r, got)
		}
		return dst.Close()
	})
	d, found := cu.As[*hazards.Driver](w.comms[0].GPU().Driver())
	if !found {
		t.Fatal("no check watches")
	}
	for _, f := range d.Findings() {
		if f.Kind == hazards.Uninitialized {
			t.Error(f)
		}
	}
}

// TestVerifyPipeline: Verify compares collectives alone, so ranks may make different sends.
func TestVerifyPipeline(t *testing.T) {
	w := newWorld(t, 3, &nccl.Options{Verify: true, Timeout: 5 * time.Second})
	w.each(func(r int) error {
		c, s, m := w.comms[r], w.streams[r], alloc(w, r, repeat(int32(r), 4))
		if r > 0 {
			check(t, nccl.Recv(c, s, m, r-1))
		}
		if r < 2 {
			check(t, nccl.Send(c, s, m, r+1))
		}
		check(t, nccl.AllReduce(c, s, m, m, nccl.Sum))
		if got := values(w, r, m); got[0] != 0 {
			t.Errorf("rank %d: %v", r, got)
		}
		return nil
	})
}

// TestEnds: what comes after an end, or beside it.
func TestEnds(t *testing.T) {
	w := newWorld(t, 2, &nccl.Options{Timeout: 20 * time.Second})
	a, b := w.comms[0], w.comms[1]
	m := alloc(w, 0, make([]float32, 4))
	other, err := nccl.ScaledSum(b, float32(2))
	check(t, err)
	again, err := nccl.ScaledSum(b, float32(2))
	if err != nil || again != other {
		t.Errorf("an equal factor gave %v and %v, %v", other, again, err)
	}
	wantRefused(t, nccl.AllReduce(a, w.streams[0], m, m, other), "is not one of rank 0 of 2")
	var g nccl.Group
	wantRefused(t, nccl.AllReduce(g.For(a), w.streams[0], m, nil, nccl.Sum), "no memory to send")
	check(t, nccl.AllReduce(g.For(a), w.streams[0], m, m, nccl.Sum))
	wantRefused(t, g.Submit(), "no memory to send")
	check(t, g.Submit()) // it is empty
	reg, err := nccl.Register(a, m)
	check(t, err)
	check(t, nccl.AllReduce(a, w.streams[0], m, m, nccl.Sum))
	closing := make(chan error)
	go func() { closing <- a.Close() }() // waits for the other rank
	time.Sleep(10 * time.Millisecond)
	check(t, b.Abort())
	if err := <-closing; err == nil {
		t.Error("Close succeeds although the other rank has aborted")
	}
	check(t, a.Close())
	check(t, a.Abort())
	check(t, reg.Close())
	if err := b.Wait(context.Background(), w.streams[1]); err == nil || !strings.Contains(err.Error(), "has called Abort") {
		t.Errorf("Wait after Abort: %v", err)
	}
	if _, err := nccl.Register(b, m); !errors.Is(err, nccl.ErrClosed) {
		t.Errorf("Register after Abort: %v", err)
	}
}

// TestNil: nil is refused, not a panic.
func TestNil(t *testing.T) {
	var c *nccl.Comm
	var g *nccl.Group
	if c.Rank() != -1 || c.Size() != 0 || c.GPU() != nil || c.Library() != "" || c.String() == "" || c.Close() != nil || c.Abort() != nil {
		t.Error("a nil communicator")
	}
	_, split := c.Split(context.Background(), 0, 0, "")
	_, op := nccl.ScaledSum(c, float32(1))
	_, reg := nccl.Register[float32](c, nil)
	_, all := nccl.OpenAll(context.Background(), nil, nil)
	_, none := nccl.OpenAll(context.Background(), []*ferry.GPU{nil}, nil)
	for _, err := range []error{c.Err(), c.Wait(context.Background(), nil), split, op, reg, all, none, nccl.Send[int32](g.For(c), nil, nil, 0), nccl.Send[int32](new(nccl.Group).For(nil), nil, nil, 0), nccl.Send[int32](nil, nil, nil, 0)} {
		wantRefused(t, err, "(nil)")
	}
	check(t, nccl.CloseAll([]*nccl.Comm{nil}))
}

// TestGPUCloses: a communicator keeps the context of a GPU that is closed.
func TestGPUCloses(t *testing.T) {
	g, err := ferry.Open("soft")
	check(t, err)
	comms, err := nccl.OpenAll(context.Background(), []*ferry.GPU{g}, &nccl.Options{Timeout: -1})
	check(t, err)
	check(t, g.Close())
	check(t, comms[0].Close())
}
