package softgpu

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// eventFile is what processes share of an event that was made with EventInterprocess: a page with
// two counts. The first counts the records, when they are queued. The second is the last of them
// that is done. So an event is past when the second count has reached the first as it was at the
// call. Driver.mu guards the fields, and the counts are atomic.
type eventFile struct {
	page  *backing
	file  *os.File // nil in processes that have opened it
	users int      // the event, records that are not done, and waits; the last one unmaps the page
}

// newEventFile makes the page of an event.
func newEventFile(dev *device) (*eventFile, error) {
	file, err := newMemoryFile(pageSize, dev.label())
	if err != nil {
		return nil, err
	}
	e, err := openEventFile(dev.drv, file, pageSize)
	if err != nil {
		file.Close()
		return nil, err
	}
	e.file = file
	return e, nil
}

// openEventFile maps the page of an event.
func openEventFile(d *Driver, file *os.File, n uint64) (*eventFile, error) {
	page, err := mapShared(file, n)
	if err != nil {
		return nil, err
	}
	page.lost = runtime.AddCleanup(d, (*backing).release, page)
	return &eventFile{page: page, users: 1}, nil
}

// destroy ends the use by the event. A nil file has none.
func (e *eventFile) destroy() {
	if e == nil {
		return
	}
	if e.file != nil {
		e.file.Close()
	}
	e.drop()
}

// drop ends a use.
func (e *eventFile) drop() {
	if e.users--; e.users == 0 {
		e.page.lost.Stop()
		e.page.release()
	}
}

// record counts a record. It returns its number, and what to call when the record is done. A nil
// file counts nothing.
func (e *eventFile) record() (n uint64, done func(*op)) {
	if e == nil {
		return 0, nil
	}
	recorded, past := e.words()
	n = recorded.Add(1)
	e.users++
	return n, func(*op) {
		for now := past.Load(); now < n && !past.CompareAndSwap(now, n); now = past.Load() {
		}
		e.drop()
	}
}

// last returns the number of the last record. A nil file has none.
func (e *eventFile) last() uint64 {
	if e == nil {
		return 0
	}
	recorded, _ := e.words()
	return recorded.Load()
}

// past reports whether a record is done, in whichever process it is.
func (e *eventFile) past(n uint64) bool {
	_, done := e.words()
	return done.Load() >= n
}

// work returns the operation that waits for a record of another process. It occupies no engine.
func (e *eventFile) work(n uint64, what string) *work {
	e.users++
	return &work{
		kind: cu.GraphNodeTypeWaitEvent, what: what, remote: true,
		run:  func(o *op) error { return e.wait(o.ctx, n, what) },
		done: func(*op) { e.drop() },
	}
}

// unshare ends the sharing of an event that is destroyed. Graphs may still wait for it.
func (e *eventState) unshare() {
	e.file.destroy()
	e.file, e.recordedAs = nil, 0
}

// foreign returns the number of the last record if another process has made it.
func (e *eventState) foreign() (n uint64, ok bool) {
	n = e.file.last()
	return n, n != e.recordedAs
}

// wait waits for a record. It ends early when the context is destroyed, at an Interrupt, and at the
// limit of kernels, as a kernel that polls does.
func (e *eventFile) wait(c *contextState, n uint64, what string) error {
	began := time.Now()
	ctx, cancel := c.drv.withKernelLimit(c.kernelCtx)
	defer cancel()
	for pause := firstLook; !e.past(n); pause = min(2*pause, lastLook) {
		if !sleep(ctx, pause) {
			return e.stopped(c.drv, context.Cause(ctx), n, what, time.Since(began))
		}
	}
	return nil
}

// stopped returns the error of a wait that was stopped.
func (e *eventFile) stopped(d *Driver, cause error, n uint64, what string, waited time.Duration) error {
	if cause == errDestroyed {
		return &simt.Stopped{Cause: cause}
	}
	f := &cu.Fault{Result: cu.ErrorLaunchTimeout}
	f.Why = fmt.Sprintf("%s: it waited %v for record %d of an event that processes share, which is not done", what, waited.Round(time.Millisecond), n)
	if cause == errLimit {
		f.Why += fmt.Sprintf(", longer than the limit of %v: raise Options.KernelLimit or %s", d.limit, LimitVariable)
	} else {
		f.Cause = cause
		f.Why += ": " + cause.Error()
	}
	return f
}

// await waits for a record of another process. The caller holds mu, which is released during the
// wait.
func (e *eventState) await(n uint64, what string) error {
	d, file := e.ctx.drv, e.file
	file.users++
	defer func() { file.drop() }()
	d.mu.Unlock()
	err := file.wait(e.ctx, n, what)
	d.mu.Lock()
	if f, ok := err.(*cu.Fault); ok {
		return &cu.OperationError{Operation: what, Result: f.Result, Why: f.Why, Cause: f.Cause}
	}
	return e.ctx.report()
}

// IpcGetEventHandle returns a handle of an event that was made for it.
func (d *Driver) IpcGetEventHandle(h cu.Context, event cu.Event) (handle cu.IpcEventHandle, err error) {
	const what = "share an event by a handle"
	err = d.sharingCall(h, what, func(*contextState) error {
		e, err := d.event(event, what)
		switch {
		case err != nil:
			return err
		case e.file == nil:
			return refuse(cu.ErrorInvalidHandle, what, "the event was made without EventInterprocess")
		case e.file.file == nil:
			return refuse(cu.ErrorInvalidHandle, what, "it is an event of another process: pass on the handle by which it was opened")
		}
		ref, err := refTo(sharedEvent, e.file.file)
		if err != nil {
			return refuse(cu.ErrorOutOfMemory, what, "%v", err)
		}
		ref.n = pageSize
		handle = cu.IpcEventHandle(ref.encode())
		return nil
	})
	return handle, err
}

// IpcOpenEventHandle makes an event that is the event of another process.
func (d *Driver) IpcOpenEventHandle(h cu.Context, handle cu.IpcEventHandle) (event cu.Event, err error) {
	const what = "open an event of another process"
	err = d.sharingCall(h, what, func(c *contextState) error {
		ref, err := decodeShared(handle, sharedEvent, what)
		switch {
		case err != nil: // as on an H100
			return refuse(cu.ErrorMapFailed, what, "the 64 bytes are no handle of an event of a software GPU")
		case ref.process == processToken():
			return refuse(cu.ErrorInvalidContext, what, "the handle is of this process, which has the event: use its own handle")
		}
		file, n, _, err := ref.open(d, what)
		if err != nil {
			return err
		}
		defer file.Close()
		page, err := openEventFile(d, file, n)
		if err != nil {
			return refuse(cu.ErrorMapFailed, what, "this computer cannot provide it: %v", err)
		}
		event = c.newEvent(cu.EventDisableTiming|cu.EventInterprocess, page)
		return nil
	})
	return event, err
}
