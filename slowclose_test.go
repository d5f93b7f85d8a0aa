package ferry

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

const endlessPTX = `.version 7.0
.target sm_75
.address_size 64
.visible .entry endless(.param .u64 p) {
again:
	bra again;
}
`

// TestSlowClose: a Close that waits for an endless kernel says what it waits for, and names
// FERRY_KERNEL_LIMIT. The kernel is stopped only then. The GPU's kernel is one that Ferry does
// not know, and the other buffer is not an argument of the kernel.
func TestSlowClose(t *testing.T) {
	for what, want := range map[string]string{
		"buffer":       "Close of device buffer 1 (1024 uint8, 1.0 KiB) on soft:h200 has waited for 1s for work in flight; kernel endless was the last kernel of the default stream of soft:h200;",
		"other buffer": "Close of device buffer 2 (1024 uint8, 1.0 KiB) on soft:h200 has waited for 1s for work in flight; kernel endless",
		"module":       "has waited for 1s for work in flight; kernel endless",
		"GPU":          "Close of soft:h200 (software, predicts NVIDIA H200) has waited for 1s for work in flight",
	} {
		t.Run(what, func(t *testing.T) { checkSlowClose(t, what, want) })
	}
}

func checkSlowClose(t *testing.T, what, want string) {
	d := try(softgpu.Open(softgpu.Options{}))(t)
	g := try(OpenDriver(d, 0))(t)
	var said []string
	say := func(text string) {
		said = append(said, text)
		d.Interrupt(errors.New("the test has seen the text"))
	}
	sayClose.Store(&say)
	defer sayClose.Store(nil)
	closeWaiting := g.Close
	if what == "GPU" {
		h := try(d.ModuleLoadData(g.ctx, []byte(endlessPTX)))(t)
		f := try(d.ModuleGetFunction(g.ctx, h, "endless"))(t)
		one := cu.Dim3{X: 1, Y: 1, Z: 1}
		if err := d.LaunchKernel(g.ctx, f, one, one, 0, 0, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	} else {
		m := try(Load(g, []byte(endlessPTX), nil))(t)
		b, other := try(Alloc[byte](g, 1<<10))(t), try(Alloc[byte](g, 1<<10))(t)
		if err := g.legacy.Launch(try(m.Kernel("endless"))(t), LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}, b); err != nil {
			t.Fatal(err)
		}
		closeWaiting = map[string]func() error{"buffer": b.Close, "other buffer": other.Close, "module": m.Close}[what]
	}
	if err := closeWaiting(); !errors.Is(err, cu.ErrorLaunchTimeout) {
		t.Errorf("Close returned %v, want the interrupt", err)
	}
	if len(said) != 1 || !strings.Contains(said[0], want) || !strings.Contains(said[0], softgpu.LimitVariable) {
		t.Errorf("said %q, want %q and %s", said, want, softgpu.LimitVariable)
	}
}

// TestCloseStartsNoTimer: a Close that has nothing to wait for starts no timer and allocates
// nothing for it.
func TestCloseStartsNoTimer(t *testing.T) {
	g := try(OpenDriver(try(softgpu.Open(softgpu.Options{}))(t), 0))(t)
	defer g.Close()
	b := try(Alloc[byte](g, 1<<10))(t)
	defer b.Close()
	if err := Fill(g.legacy, b, 1); err != nil {
		t.Fatal(err)
	}
	a := b.span.a
	timer := sayIfBusy(g, a, &a.Tracker)
	if timer == nil {
		t.Fatal("a fill is in flight, and no timer was started")
	}
	timer.Stop()
	if err := g.legacy.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { timer = sayIfBusy(g, a, &a.Tracker) }); timer != nil || n != 0 {
		t.Errorf("nothing is in flight: %v allocations, timer %v", n, timer)
	}
}

// TestForeignWorkInReport: what a slow Close waits for can be work of another library.
func TestForeignWorkInReport(t *testing.T) {
	g := closeLater(t, try(OpenDriver(try(softgpu.Open(softgpu.Options{}))(t), 0))(t))
	s := closeLater(t, try(NewStream(g, nil))(t))
	const text = "another library has the handle of stream 1"
	if got := workInFlight(g); strings.Contains(got, text) {
		t.Errorf("before the handle was taken: %s", got)
	}
	s.Handle()
	if got := workInFlight(g); !strings.Contains(got, text) {
		t.Errorf("got %q, want %q in it", got, text)
	}
}
