package await

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

type key struct{}

// program is a context of a program.
type program struct {
	context.Context
	done chan struct{}
	err  func() error
	asks int
}

func (p *program) Done() <-chan struct{} { return p.done }

func (p *program) Err() error {
	p.asks++
	return p.err()
}

// TestContextKept: contexts of package context stay as they are, a context that is its result
// too, and those that never end become the background.
func TestContextKept(t *testing.T) {
	canEnd, cancel := context.WithCancel(context.Background())
	defer cancel()
	timed, cancel := context.WithTimeout(canEnd, time.Hour)
	defer cancel()
	dated, cancel := context.WithDeadline(timed, time.Now())
	defer cancel()
	foreign := Context(&program{done: make(chan struct{})})
	for _, c := range []context.Context{canEnd, timed, dated, foreign} {
		if got := Context(c); got != c {
			t.Errorf("%v became %v", c, got)
		}
	}
	value := context.WithValue(context.Background(), key{}, 1)
	for _, c := range []context.Context{nil, context.Background(), value, context.WithoutCancel(canEnd), &program{}} {
		if got := Context(c); got != context.Background() {
			t.Errorf("%v became %v", c, got)
		}
		if n := testing.AllocsPerRun(10, func() { Context(c); _ = Err(c) }); n > 0 || Err(c) != nil {
			t.Errorf("%v: %v allocations", c, n)
		}
	}
	if Context(context.TODO()) != context.TODO() {
		t.Error("TODO became another context")
	}
}

// TestContextForeign: a context of the program is asked for its error once, when it has ended, and
// a context made from it ends with it. How its Err ends is its error.
func TestContextForeign(t *testing.T) {
	own := errors.New("own")
	for what, x := range map[string]struct {
		err  func() error
		is   error
		says string
	}{
		"error": {func() error { return own }, own, "own"},
		"nil":   {func() error { return nil }, context.Canceled, "canceled"},
		"panic": {func() error { panic(own) }, own, "Err of the context panicked: own"},
		"value": {func() error { panic(7) }, nil, "Err of the context panicked: 7"},
		"exit":  {func() error { runtime.Goexit(); return nil }, errExit, "Goexit"},
	} {
		p := &program{done: make(chan struct{}), err: x.err}
		if n := testing.AllocsPerRun(10, func() { _ = Err(p) }); n > 0 || Err(p) != nil {
			t.Errorf("%s: Err allocates %v times, and returned %v", what, n, Err(p))
		}
		c := Context(p)
		derived, cancel := context.WithCancel(c)
		if err := c.Err(); err != nil || derived.Err() != nil || p.asks != 0 {
			t.Errorf("%s: %v before the end, after %d asks", what, err, p.asks)
		}
		close(p.done)
		<-derived.Done()
		for _, c := range []context.Context{c, derived} {
			if err := c.Err(); err == nil || x.is != nil && !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s: got %v, want %q", what, err, x.says)
			}
		}
		if c.Err() != c.Err() || p.asks != 1 {
			t.Errorf("%s: asked %d times", what, p.asks)
		}
		if _, has := c.Deadline(); has || c.Value(key{}) != nil {
			t.Errorf("%s: it has a deadline or a value", what)
		}
		cancel()
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	value := context.WithValue(ended, key{}, 1)
	if c := Context(value); c.Err() != context.Canceled || Err(value) != context.Canceled || Err(ended) != context.Canceled || c.Done() != ended.Done() {
		t.Errorf("a context with a value has the error %v", c.Err())
	}
}
