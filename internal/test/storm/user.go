package storm

import (
	"context"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/ferrygpu/ferry"
)

// worker is one round.
type worker struct {
	*storm
	random *rand.Rand
	g      *ferry.GPU
	doing  string
	own    []io.Closer
}

// keep keeps what a call made, until the round ends. ok is false if the call failed.
func keep[T io.Closer](w *worker, v T, err error) (T, bool) {
	if err == nil {
		w.own = append(w.own, v)
	}
	return v, err == nil
}

// closeAll closes what the round has kept.
func (w *worker) closeAll() {
	for i := len(w.own) - 1; i >= 0; i-- {
		w.close(w.own[i])
	}
}

// one reports true once in n times.
func (w *worker) one(n int) bool { return w.random.IntN(n) == 0 }

// nilContext is in the name of a round whose context is a typed nil.
const nilContext = "with a typed nil as context"

type contextKey struct{}

// context returns any context: one that never ends, has ended, ends soon, or is the program's own.
func (w *worker) context() (context.Context, context.CancelFunc) {
	soon := time.Duration(w.random.IntN(2000)) * time.Microsecond
	switch w.random.IntN(12) {
	case 0:
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx, cancel
	case 1, 2:
		return context.WithTimeout(context.Background(), soon)
	case 3:
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		return context.WithValue(ctx, contextKey{}, 1), cancel
	case 4, 5:
		c := &program{done: make(chan struct{}), ended: w.ending()}
		end := sync.OnceFunc(func() { close(c.done) })
		time.AfterFunc(soon, end)
		return c, end
	case 6:
		if w.one(4) {
			w.doing = nilContext
			return (*program)(nil), func() {}
		}
	}
	return context.Background(), func() {}
}

// program is a context of a program, whose Err may panic.
type program struct {
	done  chan struct{}
	ended func()
}

func (p *program) Done() <-chan struct{} { return p.done }

func (p *program) Err() error {
	select {
	case <-p.done:
		p.ended()
		return errPlanted
	default:
		return nil
	}
}

func (p *program) Deadline() (time.Time, bool) { panic(errPlanted) }
func (p *program) Value(any) any               { panic(errPlanted) }

// ending is how a function of the program ends: most return.
func (w *worker) ending() func() {
	switch w.random.IntN(6) {
	case 0:
		return func() { panic(errPlanted) }
	case 1:
		return runtime.Goexit
	}
	return func() {}
}

// stream is a reader and a writer of the program.
type stream struct {
	end    func() // in the middle
	left   int    // calls before that
	err    error  // after that; nil to go on
	hang   <-chan struct{}
	source func(i int) byte // for Read
	at     int
	got    []byte // by Write
}

// reader returns a reader of the bytes of a source, or a writer, that may fail in any way. act is
// what it may do in its middle.
func (w *worker) reader(ctx context.Context, source func(i int) byte, act func()) *stream {
	r := &stream{source: source, left: 1 + w.random.IntN(3), end: func() {}}
	switch w.random.IntN(8) {
	case 0:
		r.end = w.ending()
	case 1:
		r.err = errPlanted
	case 2:
		r.err = new(brokenError)
	case 3, 4:
		r.end = act
	case 5:
		if c, ok := ctx.(*program); !ok || c != nil {
			r.hang = ctx.Done()
		}
	}
	return r
}

// brokenError is an error whose method panics.
type brokenError struct{}

func (b *brokenError) Error() string { return "broken" }
func (b *brokenError) Unwrap() error { panic(errPlanted) }

func (r *stream) step() error {
	if r.left--; r.left == 0 {
		if r.end(); r.hang != nil {
			<-r.hang
		}
		return r.err
	}
	return nil
}

func (r *stream) Read(p []byte) (int, error) {
	if err := r.step(); err != nil {
		return 0, err
	}
	p = p[:min(len(p), 3000)]
	for i := range p {
		p[i] = r.source(r.at + i)
	}
	r.at += len(p)
	return len(p), nil
}

func (r *stream) Write(p []byte) (int, error) {
	if err := r.step(); err != nil {
		return 0, err
	}
	r.got = append(r.got, p...)
	return len(p), nil
}
