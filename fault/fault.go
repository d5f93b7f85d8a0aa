package fault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Mode is how a call fails.
type Mode uint8

// The modes.
const (
	Refused Mode = iota // it does nothing
	Done                // it does its work, and returns the error
	Sticky              // it does nothing, and every later call returns the error, too
	Late                // it works, after Options.Delay
)

func (m Mode) String() string {
	return [...]string{"refused", "done", "sticky", "late"}[m&3]
}

// Options choose which calls fail, and how. The zero Options let none fail: then the driver
// counts calls and knows what is live.
type Options struct {
	// Call is the name of a C function such as "cuMemAlloc", without a version. Only its
	// calls are counted for Nth. "" stands for every function.
	Call string
	// Nth is which call fails, the first is 1. 0 for none.
	Nth uint64
	// Mode is how it fails.
	Mode Mode
	// Code is the error; 0 stands for cu.ErrorOutOfMemory.
	Code cu.Result
	// Delay is how long a late call takes in addition.
	Delay time.Duration
	// Every lets one call of so many fail at random, refused or done, with a code of each
	// class. 0 for none. The same Seed gives the same sequence.
	Every uint64
	Seed  uint64
}

// codes are one of each class: the caller's mistake, a lack of memory, a missing function.
var codes = [...]cu.Result{cu.ErrorInvalidValue, cu.ErrorOutOfMemory, cu.ErrorNotSupported}

// Driver is a [cu.Driver] whose calls can fail. It is safe for concurrent use.
type Driver struct {
	inner cu.Driver
	o     Options

	mu     sync.Mutex
	calls  uint64 // all so far
	named  uint64 // those of Options.Call
	random *rand.Rand
	lost   cu.Result // that every call returns, 0 for none
	failed string    // what failed first
	live   map[object]int
}

// object is what a call creates.
type object struct {
	kind string
	at   uint64
}

// Wrap returns a driver that passes on the calls of inner, but for those that fail.
func Wrap(inner cu.Driver, o Options) *Driver {
	if o.Code == 0 {
		o.Code = cu.ErrorOutOfMemory
	}
	return &Driver{inner: inner, o: o, random: rand.New(rand.NewPCG(o.Seed, 0)), live: map[object]int{}}
}

// Unwrap returns the wrapped driver.
func (d *Driver) Unwrap() cu.Driver { return d.inner }

// Calls returns how many calls were made so far, those that failed included.
func (d *Driver) Calls() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Failed says which call failed first, such as "cuMemAlloc, call 17: done, but
// CUDA_ERROR_OUT_OF_MEMORY"; "" if none did.
func (d *Driver) Failed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Live lists what was created and not freed, such as "stream 0x7f00", sorted.
func (d *Driver) Live() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []string{}
	for o, n := range d.live {
		for range n {
			all = append(all, fmt.Sprintf("%s %#x", o.kind, o.at))
		}
	}
	slices.Sort(all)
	return all
}

// outcome is what happens to a call.
type outcome struct {
	code cu.Result // 0 if it does not fail
	done bool      // it is made all the same
}

// next counts a call and returns what happens to it. frees is set for calls that free
// something: after a sticky error they are made, because hardware gives memory back with
// the context.
func (d *Driver) next(name string, frees bool) outcome {
	d.mu.Lock()
	out, late := d.decide(name, frees)
	d.mu.Unlock()
	if late {
		time.Sleep(d.o.Delay)
	}
	return out
}

// decide is next. The caller holds mu.
func (d *Driver) decide(name string, frees bool) (out outcome, late bool) {
	d.calls++
	if d.lost != 0 {
		return outcome{d.lost, frees}, false
	}
	mode, code, fails := d.o.Mode, d.o.Code, false
	if d.o.Call == "" || d.o.Call == name {
		d.named++
		fails = d.o.Nth != 0 && d.named == d.o.Nth
	}
	if !fails && d.o.Every > 0 && d.random.Uint64N(d.o.Every) == 0 {
		mode, code, fails = Mode(d.random.IntN(2)), codes[d.random.IntN(len(codes))], true
	}
	if !fails {
		return outcome{}, false
	}
	if d.failed == "" {
		d.failed = fmt.Sprintf("%s, call %d: %v, %s", name, d.calls, mode, code.Name())
	}
	switch mode {
	case Late:
		return outcome{}, true
	case Sticky:
		d.lost = code
		return outcome{code, frees}, false
	}
	return outcome{code, mode == Done}, false
}

// made notes that a call has created something.
func (d *Driver) made(kind string, at uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live[object{kind, at}]++
}

// freed notes that a call has freed something.
func (d *Driver) freed(kind string, at uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := object{kind, at}
	if d.live[o]--; d.live[o] <= 0 {
		delete(d.live, o)
	}
}

// Submit makes the calls of b one by one, and each can fail; see [cu.Batches].
func (d *Driver) Submit(ctx cu.Context, b *cu.Batch) (done int, err error) { return b.Do(d, ctx) }
