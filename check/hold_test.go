package check_test

import (
	"runtime"
	"testing"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
)

// TestFinalizerUnregisters: memory whose finalizer waits and ends the registration is not
// reported, although the program cannot reach it while a copy uses it.
func TestFinalizerUnregisters(t *testing.T) {
	p := &pair{kind: check.Collected}
	r, d := newChecked(p.driver("lazy"))
	begun, waited, ended := make(chan bool), make(chan bool), make(chan bool)
	func() {
		b := r.register(size)
		r.up(r.a, r.dev, b)
		runtime.SetFinalizer(&b[0], func(b *byte) {
			close(begun)
			<-waited
			r.sync(r.a)
			ok(r.MemHostUnregister(r.ctx, cu.HostPtr(b)))
			close(ended)
		})
	}()
	runtime.GC()
	<-begun
	r.sync(r.b)
	close(waited)
	<-ended
	ok(r.end())
	for _, f := range d.Findings() {
		t.Errorf("found %v", &f)
	}
}
