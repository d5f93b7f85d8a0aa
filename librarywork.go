package ferry

import (
	"fmt"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// queueWork implements bridge.Queue. It is [Stream.External] for a library that Ferry knows: f runs no
// code of the program, so memory need not be lent, and several streams are served at once.
func queueWork(what string, gpus []any, works []*bridge.Work, f func() error) (err error) {
	begun := 0
	defer func() {
		for _, w := range works[:begun] {
			w.Op.End()
		}
	}()
	for i, w := range works {
		s, _ := w.Stream.(*Stream)
		st, err := s.begin(&w.Op, what, true)
		if err != nil {
			return err
		}
		begun++
		if g := gpus[i].(*GPU); st.g != g {
			return refusal.Invalid("%s: %v belongs to %s, and the communicator to %s", what, st, st.g.label, g.label)
		}
		for k := range w.Memory {
			if err := useMemory(w, &w.Memory[k], st); err != nil {
				return fmt.Errorf("%s on %v: %w", what, st, err)
			}
		}
		w.Handle = st.outside()
		st.launched(&libraryName)
	}
	for _, w := range works {
		w.Op.Queued() // f may queue work before it fails
	}
	if err := gpus[0].(*GPU).callLibrary(f); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// libraryName stands for such work as the last launch, in messages.
var libraryName = "one of a library"

// useMemory acquires memory for a work, and sets its address.
func useMemory(w *bridge.Work, p *bridge.Piece, st *streamState) error {
	if p.Memory == nil {
		return nil
	}
	r, _ := p.Memory.(untypedMemory).untyped()
	if err := r.check(); err != nil {
		return err
	}
	access := inflight.Read
	if p.Written {
		access = inflight.Write
	}
	switch {
	case r.a == nil:
		return refusal.Invalid("%v is pageable: copy it to memory of Alloc first", r.String())
	case p.Written && r.a.readOnly.Load():
		return refusal.Invalid("%v is read-only", r.String())
	case r.a.kind == deviceMemory && r.a.g.device != st.g.device:
		return refusal.Invalid("%v is memory of another GPU: use memory of %s", r.String(), st.g.label)
	}
	if err := r.acquire(&w.Op, st, access); err != nil {
		return err
	}
	if r.bytes == 0 {
		p.Address = 0
		return nil
	}
	at, err := r.addressFor(st)
	p.Address = at
	if p.Written && st.g.watch != nil {
		st.g.watch.WatchWritten(at)
	}
	return err
}

// callLibrary calls f on a thread with the context of the GPU current.
func (g *GPU) callLibrary(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	binder, ok := cu.As[cu.ThreadBinder](g.driver)
	if !ok { // the software GPU has no contexts of threads
		return f()
	}
	return binder.WithContext(g.ctx, f)
}
