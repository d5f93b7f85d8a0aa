package ferry

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// Launch runs a kernel in the order of the stream and returns when it is queued
// (cuLaunchKernel). There is one argument for each parameter:
//
//	parameter          argument
//	pointer            a *Device, *Managed or mapped *Host of any type, or a cu.DevicePtr
//	number             a Go number of the same size: uint64 or int64 for .u64, float32 for .f32
//	bool               a Go bool
//	struct, array      a Go struct or array of the same size, without Go pointers
//
// Number and sizes are checked, floats are told from integers, and the shape is
// compared with the limits of the device and the kernel, before the driver is
// called; such errors wrap cu.ErrorInvalidValue and say which parameter. Buffers
// given are in flight, read and written, until the kernel is done; what a kernel
// reaches in other ways, through a cu.DevicePtr or an address in memory, is not
// known to be.
//
// What goes wrong while the kernel runs is told by [Stream.Wait]. Launch is safe
// for concurrent use and allocates nothing.
func (s *Stream) Launch(k *Kernel, shape Shape, args ...any) error {
	if q := s.runs(); q != nil && k != nil && q.call() {
		if err := q.launchLent(k, &shape, args); err != errMore {
			return err
		}
	}
	q, err := s.enter("launch")
	if err != nil {
		return err
	}
	f := frames.Get().(*frame)
	err = q.launch(f, k, &shape, args)
	f.release(q.finish(err == nil))
	f.done()
	return err
}

// errMore says that there is more to look at than in a use by queue.call.
var errMore = errors.New("more to look at")

// launchLent is launch where there is nothing to it, as nearly always, else errMore.
// It ends the use by queue.call.
func (q *queue) launchLent(k *Kernel, shape *Shape, args []any) (err error) {
	f := &q.frame
	f.lent = true
	what := uint64(notQueued)
	if !f.hold(q, &k.m.flight, reads, 0) || k.m.g != q.g || !k.takes(shape) || !f.packKnown(q, k, args) {
		err = errMore
	} else if err = q.launchPacked(f, k, shape); err == nil {
		what = queued
	}
	f.giveBack(q, what)
	q.called(what)
	return err
}

// launch is Launch with a frame for the arguments.
func (q *queue) launch(f *frame, k *Kernel, shape *Shape, args []any) error {
	if k == nil {
		return refuse("launch on %v: no kernel given (nil)", q)
	}
	if !f.hold(q, &k.m.flight, reads, 0) {
		return fmt.Errorf("launch %s on %v: %v: %w", k.name, q, k.m, ErrClosed)
	}
	err := q.check(k, *shape)
	if err == nil {
		err = f.pack(q, k, args)
	}
	if err != nil {
		return q.failedLaunch(k, shape, err)
	}
	return q.launchPacked(f, k, shape)
}

func (q *queue) launchPacked(f *frame, k *Kernel, shape *Shape) error {
	grid, block := full(shape.Grid), full(shape.Block)
	if err := q.g.driver.LaunchKernel(q.g.ctx, k.f, grid, block, uint32(shape.SharedBytes), q.handle, f.params); err != nil {
		return q.failedLaunch(k, shape, err)
	}
	q.ran(k)
	return nil
}

func (q *queue) failedLaunch(k *Kernel, shape *Shape, err error) error {
	return fmt.Errorf("launch %s (%v) on %v: %w", k.name, *shape, q, err)
}

// check refuses a kernel of another GPU and a shape out of limits.
func (q *queue) check(k *Kernel, shape Shape) error {
	if g := k.m.g; g != q.g && (!sameDriver(g.driver, q.g.driver) || g.ctx != q.g.ctx) {
		return &refusal{cu.ErrorInvalidHandle, fmt.Sprintf("the kernel was loaded on %s: load the module on %s, too", g.label, q.g.label)}
	}
	if k.takes(&shape) {
		return nil
	}
	if err := k.checkShape(shape); err != nil {
		return err
	}
	return k.allowShared(shape.SharedBytes)
}

// frame is the room that a launch needs for its arguments.
type frame struct {
	params []byte
	held   []held
	lent   bool    // held by queue.call
	places []place // instead of held, when the stream is not known yet
}

// place is where in params the address of a buffer goes.
type place struct {
	r  region
	at int
}

// held is something that a launch uses.
type held struct {
	f          *flight
	l          *lane
	a          access
	generation uint32
}

// hold begins the use of something of a generation. It fails if that is closed.
// Once is enough for what comes again soon; who writes may read.
func (f *frame) hold(q *queue, x *flight, a access, generation uint32) bool {
	for i := max(0, len(f.held)-4); i < len(f.held); i++ {
		if h := &f.held[i]; h.f == x && h.a >= a {
			return x.openIn(generation)
		}
	}
	var l *lane
	if f.lent {
		if l = x.lend(q); !x.openIn(generation) {
			return false
		}
	} else {
		l = x.beginOf(q, a, generation)
	}
	if l != nil {
		f.held = append(f.held, held{x, l, a, generation})
	}
	return l != nil
}

var frames = sync.Pool{New: func() any { return new(frame) }}

// giveBack ends uses by queue.call, but for that of the queue.
func (f *frame) giveBack(q *queue, what uint64) {
	seq := q.next()
	for i := range f.held {
		h := &f.held[i]
		if what == queued {
			h.l.note(h.a, seq)
		}
		h.f, h.l = nil, nil
	}
	f.held, f.lent = f.held[:0], false
}

// release ends the uses, but for that of the queue, of an operation's number or 0.
func (f *frame) release(seq uint64) {
	for i := range f.held {
		h := &f.held[i]
		h.f.end(h.l, h.a, seq)
		*h = held{}
	}
	f.held = f.held[:0]
}

// done gives the frame back.
func (f *frame) done() {
	if len(f.places) > 0 {
		clear(f.places)
		f.places = f.places[:0]
	}
	frames.Put(f)
}

// size makes params n zero bytes.
func (f *frame) size(n int) {
	if cap(f.params) < n {
		f.params = make([]byte, n)
	}
	f.params = f.params[:n]
	clear(f.params)
}

// pack puts the arguments where the kernel has its parameters. Without a stream
// the places of buffers stay empty, and are listed.
func (f *frame) pack(q *queue, k *Kernel, args []any) error {
	if !k.known {
		return f.packUnknown(q, args)
	}
	if len(args) != len(k.params) {
		return refuse("%d arguments given, the kernel has %d parameters%s", len(args), len(k.params), signature(k.params))
	}
	f.size(k.size)
	for i := range args {
		var err error
		m := k.memos[i].Load()
		if m == nil || m.word != typeWord(&args[i]) {
			m, err = k.remember(i, &args[i])
		}
		if err == nil {
			err = f.put(q, m, &args[i])
		}
		if err != nil {
			return fmt.Errorf("parameter %d (%s): %w", i, paramText(&k.params[i]), err)
		}
	}
	return nil
}

// argMemo is a type that fits a parameter, known by its word, and the parameter's
// place.
type argMemo struct {
	word     uintptr // how interfaces hold the type
	at, size int
	class    argClass
	name     string
}

// at is a memo of the type for a parameter that is there.
func (t *argType) at(offset int) *argMemo {
	return &argMemo{at: offset, size: t.size, class: t.class, name: t.name}
}

// remember looks at the type of an argument for parameter i.
func (k *Kernel) remember(i int, arg *any) (*argMemo, error) {
	t := argTypeOf(*arg)
	if err := t.fits(&k.params[i]); err != nil {
		return nil, err
	}
	m := t.at(k.params[i].Offset)
	m.word = typeWord(arg)
	k.memos[i].Store(m)
	return m, nil
}

// packUnknown packs arguments as C would, for a kernel whose parameters nobody
// knows.
func (f *frame) packUnknown(q *queue, args []any) error {
	f.size(0)
	for i := range args {
		t := argTypeOf(args[i])
		if t.err != nil {
			return fmt.Errorf("argument %d: %w", i, t.err)
		}
		at := (len(f.params) + t.align - 1) / t.align * t.align
		f.params = append(f.params, make([]byte, at+t.size-len(f.params))...)
		if err := f.put(q, t.at(at), &args[i]); err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
	}
	return nil
}

// address holds a buffer and puts its address.
func (f *frame) address(q *queue, to []byte, r *region) error {
	if r.bad == nil && r.isOf(q.g) && r.dev != 0 && f.hold(q, &r.a.flight, writes, r.age) {
		putAddress(to, r.dev)
		return nil
	}
	switch {
	case r.bad != nil:
		return r.bad
	case r.a == nil:
		return refuse("%v cannot be used by kernels: Register it, or Copy it to a buffer", r.String())
	case !f.hold(q, &r.a.flight, writes, r.age):
		return r.a.errClosed()
	case r.bytes > 0 && r.dev == 0:
		return r.unmapped()
	}
	if err := r.reach(q.g); err != nil {
		return err
	}
	if err := r.a.ordered(q); err != nil {
		return err
	}
	p, err := r.usable(q)
	if err == nil {
		putAddress(to, p)
	}
	return err
}

// signature lists parameters for a message.
func signature(params []ptx.Param) string {
	var b strings.Builder
	for i := range params {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(paramText(&params[i]))
	}
	return b.String()
}

// paramText describes a parameter for a message: `.u64 n, 8 bytes`.
func paramText(p *ptx.Param) string {
	text := sizeText(uintptr(p.Size))
	if p.Type == ptx.NoType {
		return text
	}
	return fmt.Sprintf("%s %s, %s", typeText(p.Type), p.Name, text)
}

// typeText is the type as PTX writes it.
func typeText(t ptx.Type) string { return "." + strings.TrimPrefix(t.String(), ".") }
