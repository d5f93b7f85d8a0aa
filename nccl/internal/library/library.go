package library

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// function is a function of NCCL.
type function int

// The functions. The names say which.
const (
	getVersion function = iota
	getErrorString
	getLastError
	getUniqueID
	commInitRankScalable
	commSplit
	commFinalize
	commDestroy
	commAbort
	commGetAsyncError
	commRegister
	commDeregister
	redOpCreatePreMulSum
	redOpDestroy
	groupStart
	groupEnd
	allReduce
	broadcast
	reduce
	allGather
	reduceScatter
	send
	recv
	numFunctions
)

var functionNames = [numFunctions]string{
	"ncclGetVersion", "ncclGetErrorString", "ncclGetLastError", "ncclGetUniqueId", "ncclCommInitRankScalable", "ncclCommSplit",
	"ncclCommFinalize", "ncclCommDestroy", "ncclCommAbort", "ncclCommGetAsyncError", "ncclCommRegister", "ncclCommDeregister",
	"ncclRedOpCreatePreMulSum", "ncclRedOpDestroy", "ncclGroupStart", "ncclGroupEnd", "ncclAllReduce", "ncclBroadcast",
	"ncclReduce", "ncclAllGather", "ncclReduceScatter", "ncclSend", "ncclRecv",
}

// Library is an open NCCL. It implements backend.Library.
type Library struct {
	path      string
	version   int
	functions [numFunctions]uintptr
	call      func(fn uintptr, args ...uintptr) uintptr // dl.Call, or that of a test
	frames    sync.Pool                                 // of *arguments
}

// Name returns the name with the version: "NCCL 2.28.9".
func (l *Library) Name() string { return "NCCL " + versionText(l.version) }

// Path returns the path of the library.
func (l *Library) Path() string { return l.path }

// versionText returns a version of 2.9 or newer as text.
func versionText(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// askVersion sets the version, and refuses one that is too old.
func (l *Library) askVersion() error {
	var f dl.Frame
	defer f.Release()
	version := make([]int32, 1)
	if err := l.do(0, getVersion, dl.Array(&f, version)); err != nil {
		return err
	}
	if l.version = int(version[0]); l.version < Lowest || l.functions[commInitRankScalable] == 0 {
		return fmt.Errorf("%s is too old, want %s or newer", l.Name(), versionText(Lowest))
	}
	return nil
}

// do calls a function that returns an ncclResult_t. comm is the communicator that it is about, or 0.
func (l *Library) do(comm uintptr, f function, args ...uintptr) error {
	return l.result(comm, f, l.call(l.functions[f], args...))
}

// result returns the error of a result. Work that goes on is none.
func (l *Library) result(comm uintptr, f function, register uintptr) error {
	r := backend.Result(int32(uint32(register)))
	if r == backend.Success || r == backend.InProgress {
		return nil
	}
	e := &backend.ResultError{Function: functionNames[f], Result: r, Text: dl.String(l.call(l.functions[getErrorString], uintptr(r)))}
	if e.Detail = dl.String(l.call(l.functions[getLastError], comm)); e.Detail == e.Text {
		e.Detail = ""
	}
	return e
}

// arguments are those of one call. They are used again, so that calls allocate nothing.
type arguments struct{ words [8]uintptr }

// Submit queues calls. Several are one group of NCCL.
func (l *Library) Submit(group []backend.Item) (err error) {
	a, _ := l.frames.Get().(*arguments)
	if a == nil {
		a = new(arguments)
	}
	defer l.frames.Put(a)
	for i := range group {
		if err := group[i].Comm.(*comm).enter(); err != nil {
			leaveAll(group[:i])
			return err
		}
	}
	defer leaveAll(group)
	if len(group) == 1 && !manyParts(group[0].Call.Kind) {
		return l.queue(a, &group[0])
	}
	if err := l.do(0, groupStart); err != nil {
		return err
	}
	for i := range group {
		if err = l.queue(a, &group[i]); err != nil {
			break // the group remembers it, and its end queues nothing
		}
	}
	if failed := l.do(group[0].Comm.(*comm).handle, groupEnd); err == nil {
		err = failed
	}
	return err
}

// leaveAll ends the calls with the communicators of items.
func leaveAll(group []backend.Item) {
	for i := range group {
		group[i].Comm.(*comm).leave()
	}
}

// manyParts reports whether a call is made of sends and receives.
func manyParts(k backend.Kind) bool {
	return k == backend.AllToAll || k == backend.Gather || k == backend.Scatter
}

// queue makes the call of an item.
func (l *Library) queue(a *arguments, x *backend.Item) error {
	c := x.Comm.(*comm)
	q, s := &x.Call, uintptr(x.Stream)
	count, typ, op := uintptr(q.Count), uintptr(q.Type), uintptr(q.Op.Code)
	if q.Op.Code == backend.PreMulSum {
		op = uintptr(uint32(q.Op.Handle))
	}
	from, to, peer := uintptr(q.Send), uintptr(q.Recv), uintptr(q.Peer)
	switch q.Kind {
	case backend.AllReduce:
		return l.queueCall(c, allReduce, a, from, to, count, typ, op, c.handle, s)
	case backend.Broadcast:
		return l.queueCall(c, broadcast, a, from, to, count, typ, peer, c.handle, s)
	case backend.Reduce:
		return l.queueCall(c, reduce, a, from, to, count, typ, op, peer, c.handle, s)
	case backend.AllGather:
		return l.queueCall(c, allGather, a, from, to, count, typ, c.handle, s)
	case backend.ReduceScatter:
		return l.queueCall(c, reduceScatter, a, from, to, count, typ, op, c.handle, s)
	case backend.Send:
		return l.queueCall(c, send, a, from, count, typ, peer, c.handle, s)
	case backend.Recv:
		return l.queueCall(c, recv, a, to, count, typ, peer, c.handle, s)
	}
	return l.queueParts(a, c, q, s)
}

// queueCall makes one call.
func (l *Library) queueCall(c *comm, f function, a *arguments, args ...uintptr) error {
	n := copy(a.words[:], args)
	return l.result(c.handle, f, l.call(l.functions[f], a.words[:n]...))
}

// queueParts makes a call that NCCL has no function for before 2.28: a send and a receive for each
// rank that takes part. The caller has begun a group.
func (l *Library) queueParts(a *arguments, c *comm, q *backend.Call, s uintptr) error {
	count, typ := uintptr(q.Count), uintptr(q.Type)
	part := count * uintptr(q.Type.Size())
	root := c.rank == q.Peer
	for peer := range c.size {
		away := uintptr(peer) * part
		from, to := uintptr(q.Send), uintptr(q.Recv)
		sends, receives := true, true
		switch q.Kind {
		case backend.AllToAll:
			from, to = from+away, to+away
		case backend.Gather:
			to += away
			sends, receives = peer == q.Peer, root
		case backend.Scatter:
			from += away
			sends, receives = root, peer == q.Peer
		}
		if sends {
			if err := l.queueCall(c, send, a, from, count, typ, uintptr(peer), c.handle, s); err != nil {
				return err
			}
		}
		if receives {
			if err := l.queueCall(c, recv, a, to, count, typ, uintptr(peer), c.handle, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// onThread calls f on a thread of its own, with the context of a GPU current. It returns when f has
// returned, or ctx ends. In the second case late gets the result of f when it comes.
func onThread[T any](ctx context.Context, where *backend.Config, f func() (T, error), late func(T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	result := make(chan outcome) // without a buffer: either the caller takes it, or late gets it
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var o outcome
		o.err = withContext(where, func() error {
			o.value, o.err = f()
			return o.err
		})
		select {
		case result <- o:
		case <-ctx.Done():
			late(o.value, o.err)
		}
	}()
	select {
	case o := <-result:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// withContext calls f with the context of a GPU current in the thread.
func withContext(where *backend.Config, f func() error) error {
	binder, ok := cu.As[cu.ThreadBinder](where.Driver)
	if !ok {
		return f()
	}
	return binder.WithContext(where.Context, f)
}
