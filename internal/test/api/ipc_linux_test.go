package api

import (
	"encoding/hex"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// handleVariable has the handle that the second process of TestWrapOpened opens.
const handleVariable = "FERRY_TEST_IPC_HANDLE"

const ipcElements = 100_000

// TestWrapOpened: memory that another process shares by its handle is wrapped, used by copies and a
// kernel, and closed once, when nothing is in flight.
func TestWrapOpened(t *testing.T) {
	if inHelper(t) {
		wrapOpened(t, os.Getenv(handleVariable))
		return
	}
	gputest.Needs(t, cu.DeviceAttributeIPCEventSupported)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	x := must(ferry.Alloc[float32](g, ipcElements))(t)
	check(t, ferry.Fill(s, x, 5))
	check(t, s.Wait(t.Context()))
	h, err := g.Driver().IpcGetMemHandle(g.CUContext(), x.Pointer())
	if v, _ := g.Attribute(cu.DeviceAttributeIPCEventSupported); v == 0 { // in builds with the race detector
		t.Skip(err)
	}
	check(t, err)
	cmd := helper(t)
	cmd.Env = append(cmd.Environ(), handleVariable+"="+hex.EncodeToString(h[:]))
	out := new(gputest.Output)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		t.Fatalf("the second process: %v: %s", err, out)
	}
	wantAllOf(t, s, "written by the other process", x.Range(1024, ipcElements), 5)
	wantAllOf(t, s, "written by a kernel of the other process", x.Range(0, 1024), 6)
	closeAll(t, x, s)
}

// wrapOpened is the second process.
func wrapOpened(t *testing.T, text string) {
	bytes, err := io.ReadAll(hex.NewDecoder(strings.NewReader(text)))
	check(t, err)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	_, inc := load(t, g, "increment")
	d, ctx := g.Driver(), g.CUContext()
	p := must(d.IpcOpenMemHandle(ctx, cu.IpcMemHandle(bytes), cu.IpcMemLazyEnablePeerAccess))(t)
	closed := 0
	x := must(ferry.WrapDevice[float32](g, p, ipcElements, func() error { closed++; return d.IpcCloseMemHandle(ctx, p) }))(t)
	wantAllOf(t, s, "written by the first process", x, 5)
	check(t, s.Launch(inc, ferry.Cover(1024, 256), x, uint64(1024)))
	check(t, x.Close())
	if closed != 1 {
		t.Errorf("closed %d times, want 1", closed)
	}
	if err := d.IpcCloseMemHandle(ctx, p); err == nil {
		t.Error("the memory was still open after Close of the buffer")
	}
	closeAll(t, s)
}
