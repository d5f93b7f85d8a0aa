package ferry_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// pollDriver is asked query, and counts questions and waits.
type pollDriver struct {
	*fakeDriver
	query          func(n int) error
	queries, waits atomic.Int64
	block          chan struct{} // waits wait for it, if not nil
}

func (d *pollDriver) StreamQuery(cu.Context, cu.Stream) error {
	return d.query(int(d.queries.Add(1)))
}

func (d *pollDriver) EventQuery(cu.Context, cu.Event) error { return d.query(int(d.queries.Add(1))) }

func (d *pollDriver) StreamSynchronize(cu.Context, cu.Stream) error { return d.wait() }

func (d *pollDriver) EventSynchronize(cu.Context, cu.Event) error { return d.wait() }

func (d *pollDriver) wait() error {
	d.waits.Add(1)
	if d.block != nil {
		<-d.block
	}
	return nil
}

// newPoll is a GPU whose driver answers as query says.
func newPoll(t *testing.T, query func(n int) error) (*pollDriver, *ferry.GPU) {
	t.Helper()
	d := &pollDriver{fakeDriver: newFake(), query: query}
	return d, openFake(t, d)
}

// TestWaitPolls: a short wait with a context asks, and leaves the driver's wait
// alone. A machine that is busy elsewhere may end some of the asking early.
func TestWaitPolls(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	soonReady := func(n int) error {
		if n%3 != 0 {
			return cu.ErrorNotReady
		}
		return nil
	}
	const rounds = 50
	for name, make := range map[string]func(*testing.T, *ferry.GPU) func() error{
		"stream": func(t *testing.T, g *ferry.GPU) func() error {
			c := newCost(t, g, 64)
			return func() error { return errors.Join(c.copy(), c.stream.Wait(ctx)) }
		},
		"buffer": func(t *testing.T, g *ferry.GPU) func() error {
			c := newCost(t, g, 64)
			return func() error { return errors.Join(c.copy(), c.host.Wait(ctx)) }
		},
		"event": func(t *testing.T, g *ferry.GPU) func() error {
			e := must(ferry.NewEvent(g, nil))(t)
			t.Cleanup(func() { closeAll(t, e) })
			return func() error { return e.Wait(ctx) }
		},
	} {
		d, g := newPoll(t, soonReady)
		wait := make(t, g)
		for range rounds {
			check(t, wait())
		}
		if w, q := d.waits.Load(), d.queries.Load(); w >= rounds/2 || q < rounds {
			t.Errorf("%s: %d waits took %d waits of the driver and %d questions, want hardly any waits", name, rounds, w, q)
		}
	}
}

// TestWaitPollsOnly hardware: the clock of a software GPU knows nothing of
// questions asked to save time; and an event made to sleep is not asked for.
func TestWaitPollsOnly(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	soft := &countingDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(soft, 0))(t)
	c := newCost(t, g, 64)
	t.Cleanup(func() { closeAll(t, g) })
	check(t, c.copy())
	check(t, c.stream.Wait(ctx))
	if n := soft.queries.Load(); n != 0 {
		t.Errorf("a wait on the software GPU asked %d times", n)
	}

	d, fake := newPoll(t, func(int) error { return nil })
	e := must(ferry.NewEvent(fake, &ferry.EventOptions{Blocking: true}))(t)
	check(t, e.Wait(ctx))
	closeAll(t, e)
	if q, w := d.queries.Load(), d.waits.Load(); q != 0 || w != 1 {
		t.Errorf("a blocking event was asked %d times and waited for %d times, want 0 and 1", q, w)
	}
}

// countingDriver counts questions.
type countingDriver struct {
	cu.Driver
	queries atomic.Int64
}

func (d *countingDriver) Unwrap() cu.Driver { return d.Driver }

func (d *countingDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	d.queries.Add(1)
	return d.Driver.StreamQuery(ctx, s)
}

// TestWaitPollErrors: an error that a question brings is the wait's, and is not
// lost for the stream when it was a buffer's.
func TestWaitPollErrors(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	cause := errors.New("told once")
	told := false
	_, g := newPoll(t, func(int) error {
		if told {
			return nil
		}
		told = true
		return &cu.HostPanic{Value: cause}
	})
	c := newCost(t, g, 64)
	check(t, c.copy())
	wantError(t, c.stream.Wait(ctx), cause)
	check(t, c.stream.Wait(ctx))
	told = false
	check(t, c.copy())
	check(t, c.host.Wait(ctx)) // the work is done all the same
	wantError(t, c.stream.Wait(ctx), cause)
	check(t, c.stream.Wait(ctx))

	lost, g := newPoll(t, func(int) error { return cu.ErrorIllegalAddress })
	c = newCost(t, g, 64)
	check(t, c.copy())
	wantError(t, c.stream.Wait(ctx), cu.ErrorIllegalAddress, "no kernel was launched there")
	lost.query = func(int) error { return nil }
}

// TestWaitPollGivesUp: what is not ready soon is waited for by the driver, and the
// context ends that as ever.
func TestWaitPollGivesUp(t *testing.T) {
	d, g := newPoll(t, func(int) error { return cu.ErrorNotReady })
	d.block = make(chan struct{})
	c := newCost(t, g, 64)
	check(t, c.copy())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	wantError(t, c.stream.Wait(ctx), context.DeadlineExceeded)
	if d.waits.Load() != 1 {
		t.Errorf("the driver waited %d times, want once", d.waits.Load())
	}
	close(d.block)
}

// BenchmarkWait is a short copy and the wait for it, without a context that can
// end and with one.
func BenchmarkWait(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, ctx := range map[string]context.Context{"none": context.Background(), "cancel": ctx} {
		b.Run("driver=real/size=4KiB/context="+name, func(b *testing.B) {
			c := newCost(b, openTest(b), 4096)
			for b.Loop() {
				if err := errors.Join(c.copy(), c.stream.Wait(ctx)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
