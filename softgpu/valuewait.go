package softgpu

import (
	"context"
	"fmt"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// wordWait is a wait for a value at a point of a stream. It polls the word, because kernels, copies
// and the host write memory without telling the driver.
type wordWait struct {
	what      string
	word      span // 4 or 8 bytes, aligned
	value     uint64
	condition cu.StreamWaitValueFlags // without StreamWaitValueFlush
}

// Times between two looks at the word.
const (
	firstLook = 10 * time.Microsecond
	lastLook  = time.Millisecond
)

// StreamWaitValue32 waits for a word of 4 bytes at this point of the stream.
func (d *Driver) StreamWaitValue32(h cu.Context, stream cu.Stream, addr cu.DevicePtr, value uint32, flags cu.StreamWaitValueFlags) error {
	if err := d.since("cuStreamWaitValue32", 11070); err != nil {
		return err
	}
	return d.waitValue(h, stream, addr, uint64(value), 4, flags)
}

// StreamWaitValue64 waits for a word of 8 bytes at this point of the stream.
func (d *Driver) StreamWaitValue64(h cu.Context, stream cu.Stream, addr cu.DevicePtr, value uint64, flags cu.StreamWaitValueFlags) error {
	if err := d.since("cuStreamWaitValue64", 11070); err != nil {
		return err
	}
	return d.waitValue(h, stream, addr, value, 8, flags)
}

func (d *Driver) waitValue(h cu.Context, stream cu.Stream, addr cu.DevicePtr, value, width uint64, flags cu.StreamWaitValueFlags) error {
	what := "wait for a value of " + size(width)
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.spend(orElse(d.prof.Calls.Write, d.prof.Calls.Record))
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	if err := s.ctx.dev.canWait(width, flags, what); err != nil {
		return err
	}
	word, err := s.wordAt(addr, width, what)
	if err != nil {
		return err
	}
	w := &wordWait{what, word, value, flags &^ cu.StreamWaitValueFlush}
	_, err = s.enqueue(w.work(d), what)
	return err
}

// canWait fails if the device has no waits for words of width bytes, or not with these flags.
func (dev *device) canWait(width uint64, flags cu.StreamWaitValueFlags, what string) error {
	const (
		nor   = cu.DeviceAttributeCanUseStreamWaitValueNOR
		flush = cu.DeviceAttributeCanFlushRemoteWrites
	)
	if err := dev.canWrite(width, what); err != nil {
		return err
	}
	switch condition := flags &^ cu.StreamWaitValueFlush; {
	case condition > cu.StreamWaitValueNOR:
		return refuse(cu.ErrorInvalidValue, what, "flags %#x are not known", uint32(flags))
	case condition == cu.StreamWaitValueNOR && dev.attr(nor) == 0:
		return dev.lacks(what, nor)
	case flags&cu.StreamWaitValueFlush != 0 && dev.attr(flush) == 0:
		return dev.lacks(what, flush)
	}
	return nil
}

// work returns the operation. It occupies no engine: the stream itself waits.
func (w *wordWait) work(d *Driver) *work {
	x := &work{
		kind:  cu.GraphNodeTypeBatchMemOp,
		what:  w.what,
		run:   w.run,
		price: func(*op) cost { return cost{ns: orElse(d.prof.Queue.Write, d.prof.Queue.Gap)} },
		waits: w,
	}
	if d.races {
		x.spans = w.spans
	}
	return x
}

// spans reports the read to the check of launches: as strong. What the word's writer did before
// comes before what follows the wait.
func (w *wordWait) spans(record func(p span, off, n uint64, kind kernelrace.Kind)) {
	record(w.word, 0, w.word.n, kernelrace.Strong.With(kernelrace.System))
}

// run waits until the word fulfils the condition. Like a kernel that polls, it ends early when its
// context is destroyed, at an Interrupt, and at the limit of kernels.
func (w *wordWait) run(o *op) error {
	word, err := w.word.bytes(w.what)
	if err != nil {
		return err
	}
	d, began := o.ctx.drv, time.Now()
	ctx, cancel := d.withKernelLimit(o.ctx.kernelCtx)
	defer cancel()
	var now uint64
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		fulfilled := false
		err := guard(w.what, []span{w.word}, func() error {
			now = loadWord(word)
			fulfilled = w.fulfilled(now)
			return nil
		})
		switch {
		case err != nil:
			return err
		case fulfilled:
			o.raceWaited(word)
			return nil
		case !sleep(ctx, pause):
			return w.stopped(d, context.Cause(ctx), now, time.Since(began))
		}
	}
}

// sleep waits for a time. It returns false if ctx ends before.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fulfilled reports whether a word fulfils the condition.
func (w *wordWait) fulfilled(word uint64) bool {
	mask := ^uint64(0) >> (64 - 8*w.word.n)
	switch w.condition {
	case cu.StreamWaitValueEQ:
		return word == w.value
	case cu.StreamWaitValueAND:
		return word&w.value != 0
	case cu.StreamWaitValueNOR:
		return ^(word|w.value)&mask != 0
	}
	return (word-w.value)&mask <= mask>>1 // word - value >= 0 as a signed number
}

// stopped returns the error of a wait that was stopped: a fault that loses the devices, as of a
// kernel. It says what the wait lacked, because a wait that nothing fulfils hangs on hardware.
func (w *wordWait) stopped(d *Driver, cause error, now uint64, waited time.Duration) error {
	if cause == errDestroyed {
		return &simt.Stopped{Cause: cause}
	}
	f := &cu.Fault{Result: cu.ErrorLaunchTimeout}
	f.Why = fmt.Sprintf("%s: the stream waited %v until the word at %#x, which is %#x, %s", w.what, waited.Round(time.Millisecond), w.word.region.device+w.word.off, now, w.wants())
	if cause == errLimit {
		f.Why += fmt.Sprintf(", longer than the limit of %v: let something write the word, or raise Options.KernelLimit or %s", d.limit, LimitVariable)
	} else {
		f.Cause = cause
		f.Why += ": " + cause.Error()
	}
	return f
}

// wants says what the condition is, for messages.
func (w *wordWait) wants() string {
	switch w.condition {
	case cu.StreamWaitValueEQ:
		return fmt.Sprintf("is %#x", w.value)
	case cu.StreamWaitValueAND:
		return fmt.Sprintf("has a bit of %#x", w.value)
	case cu.StreamWaitValueNOR:
		return fmt.Sprintf("lacks a bit that %#x lacks, too", w.value)
	}
	return fmt.Sprintf("is %#x or more", w.value)
}
