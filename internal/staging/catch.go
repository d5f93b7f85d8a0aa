package staging

import (
	"context"
	"errors"
	"fmt"
)

// Panic is the value of a panic in a reader or a writer of the program, on its way to the
// goroutine that must panic with that value.
type Panic struct{ Value any }

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// ErrGoexit is the error of a Read or Write that called runtime.Goexit.
var ErrGoexit = errors.New("the reader or writer ended its goroutine (runtime.Goexit)")

// Catch calls f, which may call a reader or a writer. It then calls ended once, however f
// has ended: with the error of f, with a [*Panic], or with ErrGoexit. A panic in a method of that
// error is a panic of f. Catch returns unless f called runtime.Goexit. In that case, the deferred
// functions of the callers run next.
func Catch(f func() error, ended func(error)) {
	err := ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{v}
		}
		ended(err)
	}()
	err = f()
	probe(err)
}

// probe calls the methods of an error that [errors.Is] and [errors.As] call. One of the program may
// panic there, as that of a typed nil does, and must not do so on a goroutine that nobody watches.
func probe(err error) {
	if err != nil && !errors.Is(err, ErrGoexit) {
		_, _ = errors.AsType[*Panic](err)
	}
}

// Call calls a reader or a writer on a new goroutine, and waits until the call returns or ctx
// ends. It returns a [*Panic] for a panic, and ErrGoexit for runtime.Goexit. If ctx ends
// first, the call is abandoned: it continues without a caller. abandoned then receives the
// error with which it ends. Otherwise abandoned is nil. f must not use memory of the caller
// that an abandoned call may not touch.
func Call(ctx context.Context, f func() error) (abandoned <-chan error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go Catch(f, func(err error) { done <- err })
	select {
	case err := <-done:
		return nil, err
	case <-ctx.Done():
		return done, ctx.Err()
	}
}
