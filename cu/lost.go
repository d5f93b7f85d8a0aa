package cu

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Lost is the error of a call that comes after a fault: the context is lost, and with it all
// devices of the process. It wraps the code that the call returned, and the first error. Its
// text is one line that names the first fault and says how to go on; %+v prints the first
// error as well.
type Lost struct {
	Result Result
	First  error // what the call that reported the fault first returned: a Result, or a *Fault
	loss   *Loss
}

// Error returns one line.
func (e *Lost) Error() string {
	return fmt.Sprintf("%s: an earlier fault lost the context%s: %s", e.Result.Name(), e.loss.who(e.Result), e.loss.GoOn())
}

// Format prints the first error, too, for %+v.
func (e *Lost) Format(s fmt.State, verb rune) {
	_, _ = io.WriteString(s, e.Error())
	if verb == 'v' && s.Flag('+') {
		fmt.Fprintf(s, "\nfirst: %v", e.First)
	}
}

// Unwrap returns the result and the first error.
func (e *Lost) Unwrap() []error { return []error{e.Result, e.First} }

// Loss is a driver's memory of the fault that lost its contexts. The zero Loss remembers
// none. It is safe for concurrent use.
type Loss struct {
	// Remedy says how a program goes on. "" stands for a new process, which hardware needs.
	Remedy string
	first  atomic.Pointer[Lost]
	blamed atomic.Pointer[string]
}

// Report returns the error of a call that failed with err: err itself if it is not sticky, or
// is the first sticky error, and a *Lost after that.
func (l *Loss) Report(err error) error {
	r, ok := errors.AsType[Result](err)
	if !ok || !r.Sticky() {
		return err
	}
	first := &Lost{Result: r, First: err, loss: l}
	if l.first.CompareAndSwap(nil, first) {
		return err
	}
	if first = l.first.Load(); first.Result == r {
		return first
	}
	return &Lost{Result: r, First: first.First, loss: l}
}

// Lost returns the error of calls after the fault, nil if no fault was reported.
func (l *Loss) Lost() *Lost { return l.first.Load() }

// Blame says who may have caused the fault, where the driver does not know that. Only the
// first call after the fault counts. Blame does nothing on a nil Loss, or before a fault.
func (l *Loss) Blame(who string) {
	if l != nil && l.first.Load() != nil {
		l.blamed.CompareAndSwap(nil, &who)
	}
}

// who names the first fault in parentheses, as far as it is known. r is the code of a later
// call.
func (l *Loss) who(r Result) string {
	if l == nil || l.first.Load() == nil { // a Lost that no Loss made
		return ""
	}
	first, who := l.first.Load(), l.blamed.Load()
	f, isFault := errors.AsType[*Fault](first.First)
	switch {
	case who != nil:
		return " (" + *who + ")"
	case isFault:
		return " (" + f.place() + ")"
	case r != first.Result:
		return " (" + first.Result.Name() + ")"
	}
	return ""
}

// GoOn says how a program goes on after the fault.
func (l *Loss) GoOn() string {
	if l == nil || l.Remedy == "" {
		return "the process must restart"
	}
	return l.Remedy
}

// place returns the kernel of a fault and the line, or the operation that is no kernel.
func (e *Fault) place() string {
	switch {
	case e.Kernel == "":
		return e.Op
	case e.Source != "":
		return "kernel " + e.Kernel + ", " + e.Source
	case e.Line > 0:
		return fmt.Sprintf("kernel %s, PTX line %d", e.Kernel, e.Line)
	}
	return "kernel " + e.Kernel
}

// Losing is a driver that remembers the fault that lost its contexts.
type Losing interface {
	// Loss returns the memory of the fault.
	Loss() *Loss
}

// AsLoss finds the memory of faults of d or of the drivers that d wraps. It returns nil if
// there is none.
func AsLoss(d Driver) *Loss {
	if l, ok := As[Losing](d); ok {
		return l.Loss()
	}
	return nil
}
