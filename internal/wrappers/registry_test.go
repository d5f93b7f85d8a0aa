package wrappers_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/wrappers"
)

// machine is a driver. Like a software GPU it can refer to a wrapper, which observes it.
type machine struct {
	cu.Driver
	observer any
}

// value is a driver that is no pointer. It is comparable if what is in it is.
type value struct {
	cu.Driver
	with any
}

// red and blue are two kinds of wrappers.
type (
	red  struct{ wrapper }
	blue struct{ wrapper }
)

type wrapper struct {
	cu.Driver
	inner cu.Driver
}

func (w *wrapper) Unwrap() cu.Driver { return w.inner }

func wrapRed(d cu.Driver) (*red, error) {
	runtime.Gosched() // others can run, and ask for the same
	w := &red{wrapper{inner: d}}
	if m, ok := d.(*machine); ok {
		m.observer = w
	}
	return w, nil
}

func wrapBlue(d cu.Driver) (*blue, error) { return &blue{wrapper{inner: d}}, nil }

// redOf returns the red wrapper of a driver.
func redOf(t *testing.T, d cu.Driver) cu.Driver {
	t.Helper()
	w, err := wrappers.Of(d, wrapRed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// blueOf returns the blue wrapper of a driver.
func blueOf(t *testing.T, d cu.Driver) cu.Driver {
	t.Helper()
	w, err := wrappers.Of(d, wrapBlue)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// shrinks waits until n wrappers are in the registry.
func shrinks(t *testing.T, n int) {
	t.Helper()
	for range 1000 {
		if runtime.GC(); wrappers.Len() == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d wrappers are in the registry, want %d", wrappers.Len(), n)
}

// TestOneWrapper: equal drivers have one wrapper of each kind, and others have others.
func TestOneWrapper(t *testing.T) {
	a, b := &machine{}, &machine{}
	drivers := []cu.Driver{a, b, value{a, 1}, value{a, 2}, value{b, 1}, blueOf(t, a)}
	seen := map[cu.Driver]bool{}
	for i, d := range drivers {
		r := redOf(t, d)
		if r.(*red).inner != d || seen[r] {
			t.Errorf("driver %d has the wrapper of another one", i)
		}
		seen[r] = true
	}
	for i, d := range []cu.Driver{a, b, value{a, 1}, value{a, 2}, value{b, 1}, blueOf(t, a)} {
		if r := redOf(t, d); !seen[r] {
			t.Errorf("driver %d has two red wrappers", i)
		}
		if redOf(t, redOf(t, d)) != redOf(t, d) || redOf(t, blueOf(t, redOf(t, d))) != blueOf(t, redOf(t, d)) {
			t.Errorf("driver %d, with a red wrapper, is wrapped again", i)
		}
	}
	runtime.KeepAlive(seen)
}

// TestDriversWithoutIdentity: no driver stays none. Of two drivers that cannot be compared nobody
// knows whether they are the same, so each call wraps. They are not in the registry.
func TestDriversWithoutIdentity(t *testing.T) {
	if d, err := wrappers.Of(nil, wrapRed); d != nil || err != nil {
		t.Errorf("no driver: %v, %v", d, err)
	}
	before := wrappers.Len()
	d := value{&machine{}, []int{1}}
	if a, b := redOf(t, d), redOf(t, d); a == b || wrappers.Len() > before {
		t.Errorf("a driver that cannot be compared: %p and %p, %d more in the registry", a, b, wrappers.Len()-before)
	}
}

// TestError: an error of wrap is returned without a driver, and the next call wraps.
func TestError(t *testing.T) {
	for _, d := range []cu.Driver{&machine{}, value{&machine{}, []int{1}}} {
		cause := errors.New("planted")
		if w, err := wrappers.Of(d, func(cu.Driver) (*red, error) { return nil, cause }); w != nil || err != cause {
			t.Errorf("got %v, %v, want %v", w, err, cause)
		}
		if redOf(t, d) == nil {
			t.Error("no driver after an error")
		}
	}
}

// TestShrinks: the registry keeps neither wrappers nor drivers, also if a driver refers to its
// wrapper. A wrapper that is in use stays, and with it those that it wraps. What is wrapped again
// has a new wrapper.
func TestShrinks(t *testing.T) {
	shrinks(t, 0)
	const n = 100
	var used []cu.Driver
	for i := range n {
		w := blueOf(t, redOf(t, &machine{}))
		if i%10 == 0 {
			used = append(used, w)
		}
	}
	shrinks(t, 2*len(used))
	for _, w := range used {
		r := w.(*blue).inner
		if d := r.(*red).inner; redOf(t, d) != r || blueOf(t, r) != w {
			t.Error("a wrapper that is in use was forgotten")
		}
	}
	runtime.KeepAlive(used)
	m := &machine{}
	kept := value{m, 1}
	for range 3 {
		if redOf(t, kept) == nil {
			t.Fatal("no wrapper")
		}
		used = nil
		shrinks(t, 0)
	}
	runtime.KeepAlive(kept)
}

// TestConcurrent: goroutines that open and drop the same drivers at a time have one wrapper, while
// the collector runs.
func TestConcurrent(t *testing.T) {
	shrinks(t, 0)
	drivers := []cu.Driver{&machine{}, value{&machine{}, 1}}
	for range 50 {
		var w [8][2]cu.Driver
		var all sync.WaitGroup
		for g := range w {
			all.Go(func() {
				for i, d := range drivers {
					r, err := wrappers.Of(d, wrapRed)
					if err == nil {
						r, err = wrappers.Of(r, wrapBlue)
					}
					if err != nil {
						t.Error(err)
					}
					w[g][i] = r
				}
			})
		}
		all.Go(runtime.GC)
		all.Wait()
		for g := range w {
			if w[g] != w[0] {
				t.Fatal("two goroutines have two wrappers of a driver")
			}
		}
	}
	runtime.KeepAlive(drivers)
	drivers = nil
	shrinks(t, 0)
}
