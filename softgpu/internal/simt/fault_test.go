package simt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// lineOf returns the line of the first instruction of a kernel that starts with op.
func lineOf(t *testing.T, m *module, kernel, op string) int {
	t.Helper()
	for _, f := range m.module.Funcs {
		if f.Name != kernel {
			continue
		}
		for i := range f.Body {
			if strings.HasPrefix(opText(&f.Body[i]), op) {
				return f.Body[i].Pos.Line
			}
		}
	}
	t.Fatalf("kernel %s has no %s", kernel, op)
	return 0
}

func TestOutOfBounds(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		buf := put(m.mem, make([]int32, 16))
		for _, at := range []int64{16, -1, 1 << 40, -1 << 50} {
			f := mustFault(t, m.launch(t, "out_of_bounds", 3, 2, buf, at))
			want := cu.Fault{
				Result: cu.ErrorIllegalAddress, Kernel: "out_of_bounds",
				Block: cu.Dim3{X: 1}, Thread: cu.Dim3{X: 1},
				Line: lineOf(t, m, "out_of_bounds", "st.global"), Op: f.Op,
				Addr: cu.DevicePtr(buf.Base + 4*uint64(at)), Bytes: 4,
			}
			if *f != want || !strings.HasPrefix(f.Op, "st.global.") {
				t.Errorf("at %d: got %+v, want %+v", at, *f, want)
			}
		}
		mustRun(t, m.launch(t, "out_of_bounds", 3, 2, buf, int64(15)))
		if got := valuesOf[int32](buf.Data)[15]; got != 1 {
			t.Errorf("last element: got %d, want 1", got)
		}
	})
}

func TestMisaligned(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		buf := put(m.mem, make([]int32, 16))
		f := mustFault(t, m.launch(t, "misaligned", 1, 64, buf))
		if f.Result != cu.ErrorMisalignedAddress || f.Thread.X != 3 || f.Addr != cu.DevicePtr(buf.Base+1) || f.Bytes != 4 {
			t.Errorf("got %+v", *f)
		}
		if f.Line != lineOf(t, m, "misaligned", "st.global") {
			t.Errorf("got line %d", f.Line)
		}
	})
}

func TestTrap(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		f := mustFault(t, m.launch(t, "trap_here", 4, 40, 90))
		if f.Result != cu.ErrorLaunchFailed || f.Block.X != 2 || f.Thread.X != 10 {
			t.Errorf("got %+v", *f)
		}
		mustRun(t, m.launch(t, "trap_here", 4, 40, 1000))
	})
}

// TestBreakpoint checks brkpt. An H200 without a debugger ends a kernel there as at
// trap.
func TestBreakpoint(t *testing.T) {
	const source = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry stop() { brkpt; ret; }\n"
	eachWay(t, source, func(t *testing.T, m *module) {
		f := mustFault(t, m.launch(t, "stop", 1, 1))
		if f.Result != cu.ErrorLaunchFailed || f.Line != 4 {
			t.Errorf("got %+v", *f)
		}
	})
}

func TestReadOnlySegment(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		a := put(m.mem, make([]float32, 64))
		out := put(m.mem, make([]float32, 64))
		out.ReadOnly = true
		f := mustFault(t, m.launch(t, "add_one_each", 1, 64, a, a, out, 64))
		if f.Result != cu.ErrorIllegalAddress || f.Addr != cu.DevicePtr(out.Base) {
			t.Errorf("got %+v", *f)
		}
		out.ReadOnly, a.ReadOnly = false, true
		mustRun(t, m.launch(t, "add_one_each", 1, 64, a, a, out, 64))
	})
}

func TestNullPointer(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		f := mustFault(t, m.launch(t, "out_of_bounds", 1, 4, uint64(0), int64(0)))
		if f.Result != cu.ErrorIllegalAddress || f.Addr != 0 || f.Bytes != 4 {
			t.Errorf("got %+v", *f)
		}
	})
}

// TestFirstLaneIsToBlame lets the last lanes of a full warp access memory beyond the
// end. The fault must name the first of them.
func TestFirstLaneIsToBlame(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		a := put(m.mem, make([]float32, 100))
		f := mustFault(t, m.launch(t, "add_one_each", 1, 128, a, a, a, 128))
		if f.Thread.X != 100 || f.Addr != cu.DevicePtr(a.Base+400) {
			t.Errorf("got thread %d, address %#x", f.Thread.X, f.Addr)
		}
	})
}

func TestSharedOutOfBounds(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		in := put(m.mem, make([]int32, 64))
		l := m.launch(t, "reverse_dynamic", 1, 64, in, in)
		for _, n := range []int{63, 40, 1, 0} {
			l.SharedBytes = n * 4
			f := mustFault(t, l)
			if f.Result != cu.ErrorIllegalAddress || f.Thread.X != uint32(n) || f.Bytes != 4 {
				t.Errorf("with %d elements: got %+v", n, *f)
			}
		}
	})
}

func TestUnsupported(t *testing.T) {
	const source = `.version 8.0
.target sm_90
.address_size 64
.func helper() {
	.reg .b32 %r<9>;
	wgmma.fence.sync.aligned;
	ret;
}
.visible .entry direct(.param .u64 p) {
	.reg .b32 %r<9>;
	mov.u32 %r1, 7;
	wgmma.fence.sync.aligned;
	ret;
}
.visible .entry indirect(.param .u64 p) {
	call helper;
	ret;
}
.visible .entry fine(.param .u64 p) {
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	st.global.u32 [%rd1], 5;
	ret;
}
`
	m := load(t, newSpace(), "unsupported.ptx", source)
	buf := put(m.mem, make([]int32, 1))
	for kernel, line := range map[string]int{"direct": 12, "indirect": 6} {
		_, err := Run(context.Background(), m.launch(t, kernel, 1, 1, buf))
		u, ok := errors.AsType[*UnsupportedError](err)
		if !ok || !errors.Is(err, cu.ErrorNotSupported) {
			t.Fatalf("%s: got error %v", kernel, err)
		}
		if u.Line != line || u.Op != "wgmma.fence.sync.aligned" || u.Kernel != kernel {
			t.Errorf("%s: got %+v", kernel, *u)
		}
	}
	mustRun(t, m.launch(t, "fine", 1, 1, buf))
	if got := valuesOf[int32](buf.Data)[0]; got != 5 {
		t.Errorf("got %d, want 5", got)
	}
}

func TestCancel(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		flags := put(m.mem, make([]int32, 2))
		ctx, cancel := context.WithCancel(context.Background())
		var at time.Time
		time.AfterFunc(20*time.Millisecond, func() {
			at = time.Now()
			cancel()
		})
		_, err := Run(ctx, m.launch(t, "ping_pong", 100, 64, flags, 5))
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got error %v", err)
		}
		if d := time.Since(at); d > 500*time.Millisecond {
			t.Errorf("stopped %v after the cancellation", d)
		}
	})
}

// TestPingPong lets the host and a running kernel answer each other.
func TestPingPong(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const rounds = 200
		flags := put(m.mem, make([]int32, 2))
		done := make(chan error, 1)
		go func() {
			_, err := Run(context.Background(), m.launch(t, "ping_pong", 1, 1, flags, rounds))
			done <- err
		}()
		ask, answer := word(flags.Data, 0), word(flags.Data, 1)
		for r := int32(1); r <= rounds; r++ {
			ask.Store(r)
			for deadline := time.Now().Add(10 * time.Second); answer.Load() != r; {
				if time.Now().After(deadline) {
					t.Fatalf("no answer to %d", r)
				}
				time.Sleep(time.Microsecond)
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// TestSpinTakesItsTime checks a kernel that waits by the clock. It waits as long as
// it asked for, and slightly longer because each clock read takes time. It does the
// same in every run.
func TestSpinTakesItsTime(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		var first Stats
		for workers := 1; workers < 4; workers++ {
			l := m.launch(t, "spin", 8, 64, int64(2e6))
			l.ClockHz, l.Workers = 1e8, workers
			s := mustRun(t, l)
			if s.Nap < 20e6 || s.Nap > 21e6 {
				t.Errorf("2,000,000 cycles at 100 MHz took %d ns", s.Nap)
			}
			if first.Nap == 0 {
				first = s
			}
			if s.Nap != first.Nap || s.LongestWarp != first.LongestWarp || s.WarpInstructions != first.WarpInstructions {
				t.Errorf("%d workers: got %+v, want %+v", workers, s, first)
			}
		}
	})
}

func TestLaunchArguments(t *testing.T) {
	m := loadFile(t, newSpace(), "corpus_nvcc.ptx")
	good := m.launch(t, "trap_here", 1, 1, 5)
	for name, change := range map[string]func(l *Launch){
		"no kernel":         func(l *Launch) { l.Kernel = nil },
		"empty grid":        func(l *Launch) { l.Grid.Y = 0 },
		"empty block":       func(l *Launch) { l.Block.Z = 0 },
		"huge block":        func(l *Launch) { l.Block = cu.Dim3{X: 1 << 31, Y: 1 << 31, Z: 4} },
		"too few arguments": func(l *Launch) { l.Params = l.Params[:2] },
		"negative shared":   func(l *Launch) { l.SharedBytes = -1 },
	} {
		l := *good
		change(&l)
		if _, err := Run(context.Background(), &l); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Run(context.Background(), nil); err == nil {
		t.Error("no launch: no error")
	}
}
