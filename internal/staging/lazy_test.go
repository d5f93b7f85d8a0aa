package staging

import (
	"errors"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// unfreed is a driver whose EventDestroy returns an error.
type unfreed struct {
	cu.Driver
	err error
}

func (d *unfreed) EventDestroy(ctx cu.Context, e cu.Event) error {
	return errors.Join(d.Driver.EventDestroy(ctx, e), d.err)
}

// TestLazyOnce: of many first transfers one makes the ring, and all get it. Close closes it.
func TestLazyOnce(t *testing.T) {
	r := newRig(t, small, 8<<10, softgpu.Eager)
	var l Lazy
	var made int // no other goroutine reads it while sync.Once runs
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := l.Ring(func() *Ring { made++; return r.ring }); got != r.ring {
				t.Errorf("got the ring %p, want %p", got, r.ring)
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("%d rings were made, want 1", made)
	}
	_, err := r.ring.In(background, r.job(r.n), Memory(random(r.n)))
	r.check(err)
	r.check(r.d.StreamSynchronize(r.ctx, r.stream))
	r.check(l.Close())
	if slots := r.d.slots.Load(); slots != 0 {
		t.Errorf("%d slots after Close, want 0", slots)
	}
	r.check(l.Close())
}

// TestLazyClosed: Close of one without a ring is not an error, and makes none possible.
func TestLazyClosed(t *testing.T) {
	var l Lazy
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := l.Ring(func() *Ring { t.Error("a ring was made after Close"); return nil }); got != nil {
		t.Errorf("got %v, want nil", got)
	}
}

// TestLazyLost: a lost context has freed all its memory, so Close says nothing of it. It returns
// other errors.
func TestLazyLost(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{cu.ErrorIllegalAddress, nil},
		{cu.ErrorInvalidHandle, cu.ErrorInvalidHandle},
	} {
		r := newRig(t, small, 8<<10, softgpu.Eager)
		ring := New(&unfreed{r.d, c.err}, r.ctx, small, Hooks{})
		var l Lazy
		l.Ring(func() *Ring { return ring })
		_, err := ring.In(background, r.job(r.n), Memory(random(r.n)))
		r.check(err)
		r.check(r.d.StreamSynchronize(r.ctx, r.stream))
		if err := l.Close(); !errors.Is(err, c.want) {
			t.Errorf("Close with %v: got %v, want %v", c.err, err, c.want)
		}
	}
}
