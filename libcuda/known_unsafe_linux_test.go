//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
)

// TestMemcpyKnowing: the copy comes first and the question after it. If the copy fails, that is
// the error. If only the question fails, the copy is queued, and the memory counts as known.
func TestMemcpyKnowing(t *testing.T) {
	var memory [64]byte
	copyIn := func(d *Driver) (bool, error) { return d.MemcpyKnowing(1, true, 1, unsafe.Pointer(&memory[0]), 64, 5) }
	for _, c := range []struct {
		name      string
		copy, ask string // functions of the C library
		known     bool
		err       error
	}{
		{"ordinary memory", "sched_yield", "sched_yield", false, nil},
		{"the question fails", "sched_yield", "getpid", true, nil},
		{"the copy fails", "getpid", "sched_yield", false, cu.Result(os.Getpid())},
	} {
		d := libcDriver(t, map[string]string{"cuMemcpyHtoDAsync_v2": c.copy, "cuPointerGetAttributes": c.ask})
		d.version = minByHandle
		for range 3 { // first in two calls, then in one
			if known, err := copyIn(d); known != c.known || !errors.Is(err, c.err) {
				t.Errorf("%s: known %v, error %v, want %v and %v", c.name, known, err, c.known, c.err)
			}
		}
		if n := testing.AllocsPerRun(200, func() { _, _ = copyIn(d) }); n != 0 && !racebuild.Instrumented && c.err == nil {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
