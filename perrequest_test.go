package ferry

import (
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/softgpu"
)

// eventCounter counts the events of a driver that exist.
type eventCounter struct {
	cu.Driver
	n atomic.Int64
}

func (d *eventCounter) Unwrap() cu.Driver { return d.Driver }

func (d *eventCounter) EventCreate(ctx cu.Context, flags cu.EventFlags) (cu.Event, error) {
	d.n.Add(1)
	return d.Driver.EventCreate(ctx, flags)
}

func (d *eventCounter) EventDestroy(ctx cu.Context, e cu.Event) error {
	d.n.Add(-1)
	return d.Driver.EventDestroy(ctx, e)
}

// TestStreamPerRequest: a program makes a stream for each request, and closes everything that it
// makes for the request. A buffer that all requests read knows few streams, and few events of the
// driver remain, whether a request waits by Notify or does not wait.
func TestStreamPerRequest(t *testing.T) {
	const requests, few = 600, 80
	for _, notify := range []bool{true, false} {
		d := &eventCounter{Driver: try(softgpu.Open(softgpu.Options{}))(t)}
		g := try(OpenDriver(d, 0))(t)
		shared := try(Alloc[byte](g, 1000))(t)
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for range requests {
			s := try(NewStream(g, &StreamOptions{NonBlocking: true}))(t)
			own := try(AllocAsync[byte](s, 1000, nil))(t)
			ok(Copy[byte](s, own, shared))
			if notify {
				<-try(s.Notify())(t)
			}
			ok(own.Close())
			ok(s.Close())
		}
		known := 0
		for range shared.span.a.Pending(inflight.Write) {
			known++
		}
		if known > few {
			t.Errorf("notify %t: the buffer waits for %d streams after %d requests", notify, known, requests)
		}
		if n := d.n.Load(); n > few {
			t.Errorf("notify %t: %d events are left after %d requests", notify, n, requests)
		}
		if n := len(g.unfinished.all); n > few {
			t.Errorf("notify %t: the GPU knows %d closed streams after %d requests", notify, n, requests)
		}
		ok(shared.Close())
		ok(g.Close())
		if n := d.n.Load(); n > few {
			t.Errorf("notify %t: %d events are left at the end", notify, n)
		}
	}
}
