package api

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestRefusedUnloadOfLentVariable: a module waits for its variable, which a reader or a graph uses.
// If the driver then refuses to unload the module, the error is reported, and the module is a user
// of the GPU no longer. Further calls of Close change nothing.
func TestRefusedUnloadOfLentVariable(t *testing.T) {
	for _, by := range []string{"reader", "graph"} {
		t.Run(by, func(t *testing.T) {
			d, g := openHooks(t)
			s := must(ferry.NewStream(g, nil))(t)
			m := must(ferry.Load(g, []byte(variablesPTX), nil))(t)
			counter := must(ferry.Global[uint32](m, "counter"))(t)
			planted := errors.New("planted")
			d.during("ModuleUnload", func() error { return errors.Join(cu.ErrorUnknown, planted) })
			var err error
			if by == "reader" {
				user := &calling{f: func() { wantError(t, m.Close(), cu.ErrorNotReady) }, data: make([]byte, counter.Size())}
				_, err = ferry.CopyFrom(context.Background(), s, counter, user)
			} else {
				graph := must(s.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, counter, 1) }))(t)
				check(t, m.Close())
				err = graph.Close()
			}
			if !errors.Is(err, planted) {
				t.Errorf("got %v, want the error of the unload", err)
			}
			closeAll(t, counter, m, m, s, g)
			d.wantReleased(t, by)
		})
	}
}

// TestRefusedUnloadLeavesOnce: after such an error the GPU still has its other users.
func TestRefusedUnloadLeavesOnce(t *testing.T) {
	d, g := openHooks(t)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(variablesPTX), nil))(t)
	counter := must(ferry.Global[uint32](m, "counter"))(t)
	d.during("ModuleUnload", func() error { return cu.ErrorUnknown })
	user := &calling{f: func() { wantError(t, m.Close(), cu.ErrorNotReady) }, data: bytes.Repeat([]byte{1}, counter.Size())}
	_, err := ferry.CopyFrom(context.Background(), s, counter, user)
	wantError(t, err, cu.ErrorUnknown, "variable counter")
	closeAll(t, g, counter, m, counter)
	if n := d.count("DevicePrimaryCtxRelease"); n != 0 || d.count("ModuleUnload") != 1 {
		t.Errorf("with an open stream: %d releases and %d unloads, want 0 and 1", n, d.count("ModuleUnload"))
	}
	closeAll(t, s)
	d.wantReleased(t, "after the last user")
}
