package await

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"
)

// Context returns the context with which Ferry works for a caller that gave ctx. nil never ends.
//
// The methods of a context that the program wrote may panic, also for a typed nil, or end the
// goroutine. The result calls none of them on a goroutine of Ferry: Context itself calls Done.
// Err is called once, when that channel is closed, on a goroutine of its own. A panic there is
// the error of the context. Deadline and Value are not called. Only contexts whose methods are
// those of package context are returned as they are.
//
// Contexts that cannot end need no memory.
func Context(ctx context.Context) context.Context {
	switch {
	case ctx == nil:
		return context.Background()
	case isStandard(ctx):
		return ctx
	}
	done := ctx.Done()
	if done == nil {
		return context.Background()
	}
	return &foreign{of: ctx, done: done}
}

// Err returns the error of Context(ctx). It needs memory only if ctx has ended.
func Err(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	if !isStandard(ctx) {
		select {
		case <-ctx.Done():
			ctx = Context(ctx)
		default:
			return nil
		}
	}
	return ctx.Err()
}

// standard are types of package context whose methods call no other context. One with a value
// is not among them, because its Done and Err are those of its parent.
var standard = func() [4]reflect.Type {
	canEnd, cancel := context.WithCancel(context.Background())
	cancel()
	timed, cancel := context.WithTimeout(context.Background(), time.Hour)
	cancel()
	return [...]reflect.Type{reflect.TypeOf(context.Background()), reflect.TypeOf(context.TODO()), reflect.TypeOf(canEnd), reflect.TypeOf(timed)}
}()

// isStandard reports whether Ferry may call all methods of a context on any goroutine.
func isStandard(ctx context.Context) bool {
	if _, ok := ctx.(*foreign); ok {
		return true
	}
	t := reflect.TypeOf(ctx)
	for _, s := range standard {
		if t == s {
			return true
		}
	}
	return false
}

// foreign is a context of the program, as Context describes it.
type foreign struct {
	of   context.Context
	done <-chan struct{}
	once sync.Once
	err  error
}

func (f *foreign) Done() <-chan struct{}       { return f.done }
func (f *foreign) Deadline() (time.Time, bool) { return time.Time{}, false }
func (f *foreign) Value(any) any               { return nil }

func (f *foreign) Err() error {
	select {
	case <-f.done:
	default:
		return nil
	}
	f.once.Do(func() {
		answer := make(chan error, 1)
		go f.ask(answer)
		f.err = <-answer
	})
	return f.err
}

// errExit is the error of a context whose Err called runtime.Goexit.
var errExit = errors.New("Err of the context ended its goroutine (runtime.Goexit)")

// ask calls Err of the program's context.
func (f *foreign) ask(answer chan<- error) {
	err := errExit
	defer func() {
		switch v := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("Err of the context panicked: %w", v)
		default:
			err = fmt.Errorf("Err of the context panicked: %v", v)
		}
		answer <- err
	}()
	if err = f.of.Err(); err == nil {
		err = context.Canceled // its Done says that it has ended
	}
}
