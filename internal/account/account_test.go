package account

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestClaims: what is promised counts against the limit, what is page-locked counts, and what is
// promised no more gives room to others.
func TestClaims(t *testing.T) {
	var a Account
	a.SetLimit(100)
	first, err := a.Claim(Allocated, 60, false)
	if err != nil {
		t.Fatal(err)
	}
	if u := a.Use(); u.Locked != 0 || u.Most != 0 {
		t.Errorf("nothing is page-locked yet: %+v", u)
	}
	var over *Over
	if _, err = a.Claim(Registered, 41, false); !errors.As(err, &over) || !over.Fits() {
		t.Errorf("41 bytes of 40: %v", err)
	}
	if _, err = a.Claim(Registered, 101, false); !errors.As(err, &over) || over.Fits() {
		t.Errorf("101 bytes of 100: %v", err)
	}
	first.Add(30)
	first.Add(20)
	less := a.Less()
	first.End() // 10 bytes were not page-locked
	select {
	case <-less:
	default:
		t.Error("nobody was told that there is more room")
	}
	second, err := a.Claim(Staging, 50, false)
	if err != nil {
		t.Fatal(err)
	}
	second.Add(50)
	second.End()
	if _, err = a.Claim(Pooled, 1, false); !errors.As(err, &over) {
		t.Errorf("a byte beyond the limit: %v", err)
	}
	const want = "the limit of page-locked memory is 100 bytes (GPU.LimitHost), and page-locked are 50 bytes by buffers of AllocHost, 50 bytes by the staging ring"
	if got := err.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	beyond, err := a.Claim(Staging, 10, true)
	if err != nil {
		t.Fatal(err)
	}
	beyond.Add(10)
	first.Keep(20)
	first.Keep(30) // no more than it has
	if u := a.Use(); u.By[Allocated] != 20 || u.By[Staging] != 60 || u.Locked != 80 || u.Most != 110 {
		t.Errorf("in the end: %+v", u)
	}
	if room, limited := a.Room(); room != 20 || !limited {
		t.Errorf("room for %d bytes, limited %t; want 20", room, limited)
	}
}

// TestClaimsAtOnce: with many goroutines no more is page-locked than the limit, and all of it is used
// at some time.
func TestClaimsAtOnce(t *testing.T) {
	var a Account
	a.SetLimit(64)
	a.Places.Record(true)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 500 {
				c, err := a.Claim(Kind(r.IntN(int(kinds))), 1+r.IntN(16), false)
				if err != nil {
					runtime.Gosched()
					continue
				}
				c.Add(1)
				c.Part(1).Keep(0)
				c.End()
				runtime.Gosched()
				c.Keep(0)
			}
		})
	}
	all.Wait()
	u := a.Use()
	if room, _ := a.Room(); u.Locked != 0 || u.Most > 64 || u.Most < 2 || room != 64 {
		t.Errorf("in the end: %+v, room for %d", u, room)
	}
	for _, p := range a.Places.List() {
		if p.Bytes != 0 || p.Buffers != 0 || p.AllCount == 0 {
			t.Errorf("in the end: %+v", p)
		}
	}
}

//go:noinline
func make1(a *Account, bytes int) *Claim {
	c, _ := a.Claim(Allocated, bytes, false)
	c.Add(bytes)
	return c
}

// TestPlaces: memory is recorded by kind and by the lines of the program, in use and ever. Memory from
// before is not, and what was recorded is subtracted when recording is off.
func TestPlaces(t *testing.T) {
	var a Account
	before := make1(&a, 1)
	a.Places.Record(true)
	var held []*Claim
	for range 3 {
		held = append(held, make1(&a, 10))
	}
	other := make1(&a, 5)
	var device Buffer
	device.Made(&a.Places, "device", 1000)
	device.Grow(1500)
	device.Grow(1200) // smaller: nothing
	a.Places.Record(false)
	held = append(held, make1(&a, 7), before)
	held[0].Keep(0)
	all := a.Places.List()
	if len(all) != 3 {
		t.Fatalf("%d places, want 3: %+v", len(all), all)
	}
	for i, want := range []Place{{"device", nil, 1500, 1, 1500, 1}, {"page-locked", nil, 20, 2, 30, 3}, {"page-locked", nil, 5, 1, 5, 1}} {
		got := all[i]
		top, _ := runtime.CallersFrames(got.Stack).Next()
		if !strings.HasSuffix(top.File, "account_test.go") {
			t.Errorf("place %d is %s:%d", i, top.File, top.Line)
		}
		got.Stack = nil
		if got.Kind != want.Kind || got.Bytes != want.Bytes || got.Buffers != want.Buffers || got.AllBytes != want.AllBytes || got.AllCount != want.AllCount {
			t.Errorf("place %d: %+v, want %+v", i, got, want)
		}
	}
	for _, c := range append(held, other) {
		c.Keep(0)
	}
	device.Resize(0)
	for _, p := range a.Places.List() {
		if p.Bytes != 0 || p.Buffers != 0 {
			t.Errorf("all is freed: %+v", p)
		}
	}
}

// TestManyPlaces: more stacks than are kept are of one place.
func TestManyPlaces(t *testing.T) {
	var a Account
	a.mu.Lock()
	p := &a.Places
	for i := range maxPlaces {
		p.of("device", []uintptr{uintptr(i + 1)})
	}
	x, y := p.of("device", []uintptr{1 << 40}), p.of("device", []uintptr{1 << 41})
	a.mu.Unlock()
	if x != y || x.place.Stack != nil || len(p.List()) != maxPlaces+1 {
		t.Errorf("two more places: %v, %v, %d in all", x.place, y.place, len(p.List()))
	}
}
