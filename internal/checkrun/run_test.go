package checkrun_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/checkrun"
)

// writer calls a function for each write.
type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

// TestInterrupted: the report of a program that was interrupted has what was found before.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	const script = `echo '{"text":"planted"}' >>$FERRY_CHECK_REPORT; echo '{"watched":"watched: all"}' >>$FERRY_CHECK_REPORT; echo ready; exec sleep 600`
	p := &checkrun.Program{Args: []string{"sh", "-c", script}, Stdout: writer(cancel), Stderr: io.Discard}
	r, err := p.Run(ctx)
	if !errors.Is(err, context.Canceled) || r == nil || len(r.Findings) != 1 {
		t.Fatalf("got %+v, %v, want one finding and the end of the context", r, err)
	}
	if text := r.Text(); !strings.HasPrefix(text, "watched: all\n") || !strings.Contains(text, "planted") {
		t.Errorf("the report is\n%s", text)
	}
}
