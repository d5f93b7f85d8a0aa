//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/test/forktest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
)

// TestForkedChild: in a child that a raw fork makes, every way to call the library returns
// cu.ErrorNotInitialized, and the library is not called. The parent goes on.
func TestForkedChild(t *testing.T) {
	if racebuild.On {
		t.Skip("the race detector's threads are not in a forked child")
	}
	f, d := newFake(t)
	if err := d.Init(0); err != nil {
		t.Fatal(err)
	}
	d.version = minByHandle
	var batch cu.Batch
	batch.EventRecord(9, 1234)
	submit := func() error { _, err := d.Submit(7, &batch); return err }
	if err := submit(); err != nil { // later it is prepared
		t.Fatal(err)
	}
	f.take()
	for name, call := range map[string]func() error{
		"Init":              func() error { return d.Init(0) },
		"DriverGetVersion":  func() error { _, err := d.DriverGetVersion(); return err },
		"MemAlloc":          func() error { _, err := d.MemAlloc(7, 1); return err },
		"StreamQuery":       func() error { return d.StreamQuery(7, 1234) },
		"StreamSynchronize": func() error { return d.StreamSynchronize(7, 0) },
		"EventQuery":        func() error { return d.EventQuery(7, 1234) },
		"LaunchHostFunc":    func() error { return d.LaunchHostFunc(7, 1234, func() {}) },
		"LaunchKernel": func() error {
			return d.LaunchKernel(7, 1, cu.Dim3{X: 1}, cu.Dim3{X: 1}, 0, 1234, []byte("params"))
		},
		"Submit":          submit,
		"MemcpyPeerAsync": func() error { return d.MemcpyPeerAsync(7, 1, 2, 3, 4, 5, 1234) },
	} {
		_ = call() // so that the function is known in the child
		f.take()
		text, err := forktest.Run(func() string {
			err := call()
			if calls := f.take(); len(calls) > 0 {
				return fmt.Sprintf("the library was called: %+v", calls)
			}
			if _, ok := errors.AsType[*forked.Error](err); !ok || !errors.Is(err, cu.ErrorNotInitialized) {
				return fmt.Sprint("another error: ", err)
			}
			return err.Error()
		})
		if want := fmt.Sprintf("was made by fork from process %d, which started the driver", os.Getpid()); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: got %q, %v; want %q", name, text, err, want)
		}
		if err := call(); errors.Is(err, cu.ErrorNotInitialized) || len(f.take()) == 0 {
			t.Errorf("%s: the parent does not call the library after a fork: %v", name, err)
		}
	}
}
