package softgpu

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// pass returns an exchange that copies n bytes from one address to another when wait returns.
func pass(r *rig, s cu.Stream, from, to cu.DevicePtr, n uintptr, wait func(*Running) error) *Exchange {
	return &Exchange{
		Name: "pass", Context: r.ctx, Stream: s, Reads: []Range{{from, n}}, Writes: []Range{{to, n}},
		Run: func(x *Running) (time.Duration, error) {
			if wait != nil {
				if err := wait(x); err != nil {
					return 0, err
				}
			}
			data, err := x.Read(0)
			if err != nil {
				return 0, err
			}
			return 5 * time.Microsecond, x.Write(0, 0, data)
		},
	}
}

// exchange queues exchanges.
func (r *rig) exchange(list ...*Exchange) []*QueuedExchange {
	r.t.Helper()
	queued, err := r.Exchange(list)
	r.ok(err)
	return queued
}

// TestExchangeWaits: an exchange that waits for a rank which has not called lets other streams go on, under
// every schedule, and is not taken for one that has stopped. Its time is right, however long it waits here.
func TestExchangeWaits(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		from, to, other := r.alloc(64), r.alloc(64), r.alloc(64)
		r.ok(r.MemsetD8(r.ctx, from, 7, 64))
		r.ok(r.CtxSynchronize(r.ctx))
		a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
		e, f := r.event(), r.event()
		open := make(chan struct{})
		r.ok(r.EventRecord(r.ctx, e, a))
		q := r.exchange(pass(r, a, from, to, 64, func(x *Running) error {
			defer x.Wait()()
			<-open
			return nil
		}))
		r.ok(r.EventRecord(r.ctx, f, a))
		began := time.Now()
		q[0].Start()
		for range 5 {
			r.ok(r.MemsetD8Async(r.ctx, other, 9, 1, b))
			r.sync(b)
		}
		if took := time.Since(began); took > kernelWaitLimit/2 {
			t.Errorf("other streams took %v", took)
		}
		r.want(cu.ErrorNotReady, r.StreamQuery(r.ctx, a))
		time.Sleep(hostWaitLimit + 50*time.Millisecond)
		r.Now()
		close(open)
		r.sync(a)
		_, out := r.pinned(64)
		r.ok(r.MemcpyDtoH(r.ctx, ptr(out), to, 64))
		if !bytes.Equal(out, bytes.Repeat([]byte{7}, 64)) {
			t.Errorf("got %v", out)
		}
		r.sync(b)
		ms, err := r.EventElapsedTime(r.ctx, e, f)
		r.ok(err)
		if ms < 0.005 {
			t.Errorf("it took %v ms of virtual time, want at least 0.005", ms)
		}
	})
}

// TestExchangeStarts: an exchange starts another one that it waits for, although nothing else would.
func TestExchangeStarts(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		r.idleAfter = time.Hour
		p := r.alloc(64)
		a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
		var second []*QueuedExchange
		ready, came := make(chan struct{}), make(chan struct{})
		m := NewMeeting(2)
		first := pass(r, a, p, p, 64, func(x *Running) error {
			<-ready
			x.Start(second...)
			<-came
			return nil
		})
		other := pass(r, b, p, p, 0, func(*Running) error { close(came); return nil })
		first.Meetings, other.Meetings = []*Meeting{m}, []*Meeting{m}
		queued := r.exchange(first, other)
		second = queued[1:]
		close(ready)
		r.sync(a)
		if !queued[1].o.done {
			t.Error("the second one is not done")
		}
	})
}

// TestExchangeLeft: an operation that the call which runs another one has not started when it ends starts all the same.
func TestExchangeLeft(t *testing.T) {
	r := newRig(t, Options{Schedule: Random})
	r.idleAfter = time.Hour
	p, a := r.alloc(64), r.stream(cu.StreamNonBlocking)
	q := r.exchange(pass(r, a, p, p, 64, nil))[0]
	e := &exchanging{watched: 1, wants: []*op{q.o}}
	r.mu.Lock()
	e.unwatch()
	r.mu.Unlock()
	select {
	case <-q.Done():
	case <-time.After(5 * time.Second):
		t.Error("it has not started")
	}
}

// TestExchangeSeed: under random the same seed gives the same order, also of exchanges that start each other.
func TestExchangeSeed(t *testing.T) {
	run := func() []string {
		r := newRig(t, Options{Schedule: Random, Seed: 11})
		var j journal
		var list []*Exchange
		var queued []*QueuedExchange
		begun, all := 0, make(chan struct{})
		for i := range 4 {
			a := r.stream(cu.StreamNonBlocking)
			r.ok(r.LaunchHostFunc(r.ctx, a, j.add(fmt.Sprint("before ", i))))
			list = append(list, pass(r, a, 0, 0, 0, func(x *Running) error {
				j.add(fmt.Sprint("exchange ", i))()
				j.mu.Lock()
				begun++
				last := begun == 4
				j.mu.Unlock()
				if last {
					close(all)
				}
				x.Start(queued...)
				<-all
				return nil
			}))
		}
		r.mu.Lock()
		r.schedule = Lazy // nothing runs before queued is set
		r.mu.Unlock()
		queued = r.exchange(list...)
		r.mu.Lock()
		r.schedule = Random
		r.mu.Unlock()
		queued[0].Start()
		r.ok(r.CtxSynchronize(r.ctx))
		return j.lines
	}
	first := run()
	for range 10 {
		if again := run(); !slices.Equal(again, first) {
			t.Fatalf("the orders differ:\n%v\n%v", first, again)
		}
	}
}

// TestExchangeFails: an error of Run is nobody's but the caller's. A fault of the memory loses the device.
func TestExchangeFails(t *testing.T) {
	r := newRig(t, Options{})
	p := r.alloc(64)
	a := r.stream(0)
	r.exchange(pass(r, a, p, p, 64, func(*Running) error { return errors.New("no") }))
	r.sync(a)
	r.ok(r.CtxSynchronize(r.ctx))

	if raceBuild {
		return // the free in another stream is a race
	}
	pooled, err := r.MemAllocAsync(r.ctx, 64, a)
	r.ok(err)
	r.sync(a)
	b := r.stream(cu.StreamNonBlocking)
	freed := make(chan struct{})
	r.exchange(pass(r, b, pooled, p, 64, func(x *Running) error { defer x.Wait()(); <-freed; return nil }))
	r.ok(r.MemFreeAsync(r.ctx, pooled, a))
	r.sync(a)
	close(freed)
	r.want(cu.ErrorIllegalAddress, r.StreamSynchronize(r.ctx, b))
}

// TestExchangeCrossed: exchanges of two contexts meet, and each device starts another one first. Both end.
func TestExchangeCrossed(t *testing.T) {
	for _, schedule := range []Schedule{Eager, Lazy, Random} {
		r := newRig(t, Options{Devices: 2, Schedule: schedule})
		x, y := NewMeeting(2), NewMeeting(2)
		var last []cu.Stream
		var contexts []cu.Context
		for dev := range 2 {
			meetings := []*Meeting{x, y}
			if dev == 1 {
				meetings = []*Meeting{y, x}
			}
			for _, m := range meetings {
				ctx, err := r.CtxCreate(0, cu.Device(dev))
				r.ok(err)
				s, err := r.StreamCreate(ctx, cu.StreamNonBlocking)
				r.ok(err)
				r.exchange(&Exchange{Name: "crossed", Context: ctx, Stream: s, Meetings: []*Meeting{m},
					Run: func(*Running) (time.Duration, error) { return time.Microsecond, nil }})
				contexts, last = append(contexts, ctx), append(last, s)
			}
		}
		for i, s := range last {
			r.ok(r.StreamSynchronize(contexts[i], s))
		}
	}
}

// TestExchangeLost: when the devices are lost, an exchange that waits ends.
func TestExchangeLost(t *testing.T) {
	r := newRig(t, Options{})
	p := r.alloc(64)
	a := r.stream(cu.StreamNonBlocking)
	running, cause := make(chan struct{}), make(chan error, 1)
	q := r.exchange(pass(r, a, p, p, 64, func(x *Running) error {
		defer x.Wait()()
		close(running)
		<-x.Context().Done()
		cause <- x.Context().Err()
		return errors.New("stopped")
	}))
	dropped := make(chan struct{})
	behind := pass(r, a, p, p, 64, nil)
	behind.Dropped = func() { close(dropped) }
	r.exchange(behind)
	<-running
	r.mu.Lock()
	r.lose(&cu.Fault{Result: cu.ErrorIllegalAddress, Why: "a test"})
	r.mu.Unlock()
	<-cause
	<-q[0].Done()
	<-dropped
}

// TestExchangeAll: if one of several exchanges is refused, none is queued.
func TestExchangeAll(t *testing.T) {
	r := newRig(t, Options{})
	p := r.alloc(64)
	a := r.stream(0)
	ran := false
	good := pass(r, a, p, p, 64, func(*Running) error { ran = true; return nil })
	host := make([]byte, 64)
	for text, bad := range map[string]*Exchange{
		"what it reads: CUDA_ERROR_INVALID_VALUE: 64 bytes at": pass(r, a, p+8, p, 64, nil),
		"what it writes":                    pass(r, a, p, cu.DevicePtr(uintptr(ptr(host))), 64, nil),
		"is not an address of this context": pass(r, a, 1<<50, p, 64, nil),
		"0x4d was never a stream":           pass(r, 0x4d, p, p, 64, nil),
	} {
		_, err := r.Exchange([]*Exchange{good, bad})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error with %q", err, text)
		}
	}
	r.ok(r.CtxSynchronize(r.ctx))
	if ran {
		t.Error("the good one has run")
	}
}

// exchanges observes the operations of exchanges.
type exchanges struct{ all []*cu.Operation }

func (e *exchanges) Queued(uint64) {}
func (e *exchanges) Ended(o *cu.Operation) {
	if o.Kernel == "pass" {
		e.all = append(e.all, o)
	}
}

// TestExchangeMeets: exchanges of a meeting end together, also if one is done here long before the other one starts.
func TestExchangeMeets(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		p, q, other := r.alloc(64), r.alloc(64), r.alloc(1<<20)
		a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
		e := &exchanges{}
		r.Now()
		r.Observe(e)
		m := NewMeeting(2)
		first, second := pass(r, a, p, p, 64, nil), pass(r, b, q, q, 64, nil)
		first.Meetings, second.Meetings = []*Meeting{m}, []*Meeting{m}
		r.ok(r.MemsetD8Async(r.ctx, other, 1, 1<<20, b))
		r.exchange(first, second)
		r.sync(a)
		r.sync(b)
		r.Now()
		if len(e.all) != 2 {
			t.Fatalf("%d exchanges ended", len(e.all))
		}
		slices.SortFunc(e.all, func(x, y *cu.Operation) int { return int(x.ID) - int(y.ID) })
		x, y := e.all[0], e.all[1]
		if x.End != y.End || y.End-y.Start != 5*time.Microsecond || x.Start >= y.Start {
			t.Errorf("the first ran from %v to %v, the second from %v to %v; want the same end, 5us after the second start", x.Start, x.End, y.Start, y.End)
		}
	})
}
