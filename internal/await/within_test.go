package await

import (
	"context"
	"errors"
	"testing"
)

// TestWithin: Within returns what its function returns, or nil when the context ends first, and
// the function continues.
func TestWithin(t *testing.T) {
	planted := errors.New("planted")
	ctx, cancel := context.WithCancel(context.Background())
	for _, c := range []context.Context{context.Background(), ctx} {
		if err := Within(c, func() error { return planted }); err != planted { //nolint:errorlint // it is not wrapped
			t.Errorf("got %v, want %v", err, planted)
		}
	}
	release, ended := make(chan struct{}), make(chan struct{})
	err := Within(ctx, func() error { cancel(); <-release; close(ended); return planted })
	if err != nil {
		t.Errorf("got %v after the end of the context, want nil", err)
	}
	close(release)
	<-ended
	if err := Within(ctx, func() error { return planted }); err != planted { //nolint:errorlint // it is not wrapped
		t.Errorf("got %v from a function that returns at once, want %v", err, planted)
	}
}
