package await

import (
	"context"
	"time"
)

// grace is how long Within waits for its function after the end of the context. Most
// functions return at once.
const grace = 10 * time.Millisecond

// Within calls f, which may wait for the device, and returns its error. If ctx can end, f runs
// on another goroutine: then Within returns nil soon after the end of ctx, and f continues. f
// must keep what it uses.
//
// A host function must not call Within: the driver would not refuse the calls of the other
// goroutine, which could wait for the host function.
func Within(ctx context.Context, f func() error) error {
	if ctx.Done() == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		return nil
	}
}
