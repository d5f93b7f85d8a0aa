package stage

import (
	"sync"
	"sync/atomic"
)

// crew is the goroutines that help the callers of transfers. They wait in the
// operating system, which wakes them all at once: goroutines that wait in Go wake
// one another, one by one, which took 0.5 ms for eleven.
type crew struct {
	once sync.Once
	bell bell
	work chan *transfer
	over atomic.Bool
}

// call asks for n helpers. They come when they can, if there is still work then.
func (k *crew) call(t *transfer, n, most int) {
	if !bells {
		for range n {
			go t.help()
		}
		return
	}
	k.once.Do(func() {
		k.work = make(chan *transfer, 4*most+1)
		for range most {
			go k.serve()
		}
	})
	for range n {
		select {
		case k.work <- t:
		default: // more than can be busy
		}
	}
	k.bell.ring()
}

// serve is a helper.
func (k *crew) serve() {
	for !k.over.Load() {
		heard := k.bell.rung()
		select {
		case t := <-k.work:
			t.help()
		default:
			k.bell.wait(heard)
		}
	}
}

// dismiss lets the helpers go.
func (k *crew) dismiss() {
	k.once.Do(func() {})
	k.over.Store(true)
	k.bell.ring()
}

// help takes part in a transfer that is not over.
func (t *transfer) help() {
	for {
		n := t.left.Load()
		if n == 0 {
			return
		}
		if t.left.CompareAndSwap(n, n+1) {
			t.work()
			return
		}
	}
}
