package kerneltest

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func open(t *testing.T) *ferry.GPU {
	t.Helper()
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() }) // fails after a fault, which a test wants
	return g
}

// scale returns a case for one of the kernels that multiply by 2.
func scale(kernel string, sizes ...int) *Case {
	return &Case{
		File: "testdata/kernels.ptx", Kernel: kernel, Sizes: sizes, Seed: 5,
		Args: []string{"u32=N", "f32=2", "in:f32=random[N]", "out:f32=[N]"},
		Want: wantScaled,
	}
}

func wantScaled(a *Args) {
	factor, x, y := Value[float32](a, 1), Slice[float32](a, 2), Slice[float32](a, 3)
	for i := range y {
		y[i] = factor * x[i]
	}
}

// TestRun tests a kernel that is right, with all default sizes and several blocks, on all
// devices of this machine.
func TestRun(t *testing.T) {
	c := scale("scale")
	c.Blocks = []int{1, 32, 256, 1024}
	Run(t, c)
}

// TestParallel runs a shared case in parallel tests.
func TestParallel(t *testing.T) {
	c := scale("scale", 100)
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			if err := Check(t.Context(), open(t), c); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFailures compares the texts of failures with golden files.
func TestFailures(t *testing.T) {
	halves := func(out string) *Case {
		return &Case{
			File: "testdata/kernels.ptx", Kernel: "copy16", Sizes: []int{8},
			Args: []string{"u32=N", "in:f16=0,1,2,3,0.5,-0,inf,nan", out},
		}
	}
	for name, c := range map[string]*Case{
		"missing": scale("scale_short", 31, 300),
		"shifted": scale("scale_shifted", 100),
		"input":   scale("scale_input", 4, 8),
		"outside": scale("scale_unbounded", 32, 31),
		"block":   func() *Case { c := scale("scale_block", 100, 1000); c.Blocks = []int{64, 128}; return c }(),
		"cooperative": func() *Case {
			c := scale("scale_short", 40)
			c.Configs = func(n int) []ferry.LaunchConfig {
				config := ferry.Cover(n, 32)
				config.Cooperative = true
				return []ferry.LaunchConfig{config}
			}
			return c
		}(),
		"same": func() *Case { c := scale("scale_block", 100); c.Blocks, c.Want = []int{64, 128}, nil; return c }(),
		"many": scale("scale_short"),
		"integer": {
			File: "testdata/kernels.ptx", Kernel: "planned", Args: []string{"struct=u8:7,f32:3,s32:10,-20", "in:s32=random[8]:-99..99", "out:s32=[8]"},
			Blocks: []int{8}, Tolerance: Tolerance{Abs: 3, ULP: 100},
			Want: func(a *Args) {
				p := Value[plan](a, 0)
				for i, x := range Slice[int32](a, 1) {
					Slice[int32](a, 2)[i] = x + p.Offset[i%2]*3 + int32(i)
				}
			},
		},
		"half": func() *Case {
			c := halves("out:f16=[N]")
			c.Want = func(a *Args) {
				x, y := Slice[F16](a, 1), Slice[F16](a, 2)
				for i := range y {
					y[i] = NewF16(x[i].Float64() + 1)
				}
			}
			return c
		}(),
		"ptx": {
			PTX: []byte(kernels.PTX), Kernel: "increment", Args: []string{"inout:u32=0,4294967295", "u64=2"}, Want: func(*Args) {},
		},
		"other":     func() *Case { c := scale("scale", 40); c.Other = otherBuild(t); return c }(),
		"kernel":    scale("scales", 1),
		"arguments": {File: "testdata/kernels.ptx", Kernel: "scale", Args: []string{"u64=N", "f32=1"}, Sizes: []int{1}},
		"wanttype":  {File: "testdata/kernels.ptx", Kernel: "copy16", Args: []string{"u32=N", "in:u16=iota[N]", "out:u16=[N]"}, Sizes: []int{1}, Want: func(a *Args) { _ = Slice[float32](a, 2) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("FERRY_SCHEDULE", "eager")
			g := open(t)
			s := &session{state: newState(c), g: g, reopen: "soft"}
			defer s.close()
			err := s.runAll(t.Context())
			if err == nil {
				t.Fatal("the test did not find what is wrong")
			}
			golden(t, name+".txt", regexp.MustCompile(`0x[0-9a-f]{9,}`).ReplaceAllString(err.Error(), "0xADDRESS")+"\n")
		})
	}
}

// otherBuild returns the module with a kernel scale that is wrong: that of scale_shifted.
func otherBuild(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/kernels.ptx")
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.NewReplacer(".entry scale(", ".entry scale_right(", ".entry scale_shifted(", ".entry scale(").Replace(string(text)))
}

// TestOther compares a module with itself.
func TestOther(t *testing.T) {
	c := scale("scale")
	module, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	c.Other = module
	Run(t, c)
}

type plan struct {
	Kind   uint8
	Factor float32
	Offset [2]int32
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; create it with go test -update", err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// TestGuards checks that a write behind a buffer is found by its guard band, as on
// hardware. The kernel doubles the numbers of the band, which leaves some of their bytes.
func TestGuards(t *testing.T) {
	s := &session{state: newState(scale("scale_unbounded", 32, 30)), g: open(t), guards: true}
	defer s.close()
	err := s.runAll(t.Context())
	if err == nil {
		t.Fatal("a write outside was not found")
	}
	for _, want := range []string{"N=30", "wrote outside of the buffer of 120 bytes", "from byte 122 to byte 1022"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant it to say %q", err, want)
		}
	}
}

// TestGuardsAreQuiet checks that guard bands do not disturb a kernel that is right.
func TestGuardsAreQuiet(t *testing.T) {
	s := &session{state: newState(scale("scale")), g: open(t), guards: true}
	defer s.close()
	if err := s.runAll(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLaunch launches by the hook, with elements of a structure.
func TestLaunch(t *testing.T) {
	type pair struct {
		Value float32
		Index uint32
	}
	module, err := os.ReadFile("testdata/kernels.ptx")
	if err != nil {
		t.Fatal(err)
	}
	c := &Case{
		Args: []string{"u32=N", "in:f32=random[N]", "out:b32=[N*2]"},
		Launch: func(l *Launch) error {
			m, err := ferry.Load(l.GPU, module, nil)
			if err != nil {
				return err
			}
			defer m.Close()
			k, err := m.Kernel("pairs")
			if err != nil {
				return err
			}
			return l.Stream.Launch(k, l.Config, Value[uint32](l.Args, 0), Device[float32](l.Args, 1), Device[pair](l.Args, 2))
		},
		Want: func(a *Args) {
			for i, x := range Slice[float32](a, 1) {
				Slice[pair](a, 2)[i] = pair{x, uint32(i)}
			}
		},
	}
	Run(t, c)

	s := &session{state: newState(c), g: open(t), guards: true}
	defer s.close()
	if err := s.runAll(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRefuses checks the errors of cases that cannot be run.
func TestRefuses(t *testing.T) {
	change := func(f func(*Case)) *Case { c := scale("scale", 4); f(c); return c }
	hook := func(f func(l *Launch)) *Case {
		return change(func(c *Case) { c.File, c.Launch = "", func(l *Launch) error { f(l); return nil } })
	}
	for _, c := range []struct {
		c    *Case
		want string
	}{
		{nil, "no case given"},
		{&Case{}, "one of PTX, File and Launch"},
		{&Case{File: "x", PTX: []byte("x")}, "one of PTX, File and Launch"},
		{&Case{File: "x"}, "needs the name of a kernel"},
		{change(func(c *Case) { c.File = "absent.ptx" }), "absent.ptx"},
		{change(func(c *Case) { c.File, c.PTX = "", []byte("garbage") }), "load"},
		{change(func(c *Case) { c.Args[1] = "f33=2" }), `"f33" is not a type`},
		{change(func(c *Case) { c.Args[1] = "f33=2"; c.Sizes = nil; c.Args[0] = "u32=1" }), `"f33" is not a type`},
		{change(func(c *Case) { c.Sizes = []int{0} }), "at least 1 element"},
		{change(func(c *Case) { c.Sizes = []int{-1} }), "out of range for u32"},
		{change(func(c *Case) { c.Blocks = []int{0} }), "at least one block"},
		{change(func(c *Case) { c.Blocks = []int{} }), "no configuration for N=4"},
		{change(func(c *Case) { c.Blocks = []int{1}; c.Configs = func(int) []ferry.LaunchConfig { return nil } }), "not both"},
		{change(func(c *Case) { c.Other = []byte("garbage") }), "load"},
		{hook(func(l *Launch) {}), "did not use it"},
		{change(func(c *Case) { c.Tolerance.Abs = -1 }), "not a positive number"},
		{change(func(c *Case) { c.Want = func(a *Args) { Slice[float32](a, 4) } }), "there are 4, numbered from 0"},
		{change(func(c *Case) { c.Want = func(a *Args) { Slice[uint32](a, 0) } }), "it is a scalar, use Value"},
		{change(func(c *Case) { c.Want = func(a *Args) { Value[uint32](a, 3) } }), "it is a buffer, use Slice"},
		{change(func(c *Case) { c.Want = func(a *Args) { Slice[*int](a, 3) } }), "hold Go pointers"},
		{change(func(c *Case) { c.Want = func(a *Args) { Slice[struct{ On [4]bool }](a, 3) } }), ".On[0] is bool"},
		{change(func(c *Case) { c.Want = func(a *Args) { Value[[4]bool](a, 0) } }), "argument 0, u32=4: elements of type [4]bool hold a bool"},
		{change(func(c *Case) { c.Want = func(a *Args) { Slice[struct{}](a, 3) } }), "does not divide 16"},
		{change(func(c *Case) { c.Want = func(a *Args) { Slice[[3]float32](a, 3) } }), "does not divide 16"},
		{change(func(c *Case) { c.Want = func(a *Args) { Value[int32](a, 0) } }), "int32 does not fit u32"},
		{change(func(c *Case) { c.Want = func(a *Args) { Value[[2]uint16](a, 0); Value[[1]uint16](a, 0) } }), "has 2 bytes, want 4"},
		{change(func(c *Case) { c.Want = func(a *Args) { Device[float32](a, 3) } }), "Want uses Slice"},
		{hook(func(l *Launch) { Slice[float32](l.Args, 3) }), "a launch uses Device"},
		{hook(func(l *Launch) { Device[float32](l.Args, 3) }), "argument 2, in:f32=random[4]: Launch did not use it"},
		{hook(func(l *Launch) { Device[float32](l.Args, 3); Device[[2]float32](l.Args, 3) }), "already in use as *ferry.Device[float32]"},
	} {
		err := Check(t.Context(), open(t), c.c)
		if err == nil {
			t.Errorf("want an error that says %q", c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant it to say %q", err, c.want)
		}
	}
	if err := Check(t.Context(), nil, scale("scale")); err == nil {
		t.Error("a nil GPU was accepted")
	}
}

// TestUserCodeEnds checks that a panic or runtime.Goexit in the functions of a case reaches the
// caller, that the next Check works, and that the GPU can be closed.
func TestUserCodeEnds(t *testing.T) {
	for how, end := range map[string]func(){"panic": func() { panic("mine") }, "Goexit": runtime.Goexit} {
		soft, err := softgpu.Open(softgpu.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := fault.Wrap(soft, fault.Options{}) // knows what is not freed
		g, err := ferry.OpenDriver(d, 0)
		if err != nil {
			t.Fatal(err)
		}
		for where, change := range map[string]func(c *Case){
			"Want":    func(c *Case) { c.Want = func(*Args) { end() } },
			"Configs": func(c *Case) { c.Blocks, c.Configs = nil, func(int) []ferry.LaunchConfig { end(); return nil } },
			"Launch":  func(c *Case) { c.File, c.Launch = "", func(*Launch) error { end(); return nil } },
			"Launch, with buffers": func(c *Case) {
				c.File, c.Launch = "", func(l *Launch) error {
					check := errors.Join(l.Stream.HostFunc(func() {}), ferry.Fill(l.Stream, Device[float32](l.Args, 3), 1))
					end()
					return check
				}
			},
		} {
			c := scale("scale", 4)
			change(c)
			ended := make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				err := Check(t.Context(), g, c)
				t.Errorf("%s in %s: Check returned %v", how, where, err)
			}()
			if got := <-ended; (got == "mine") != (how == "panic") {
				t.Errorf("%s in %s: panic of %v", how, where, got)
			}
			if err := Check(t.Context(), g, scale("scale", 4)); err != nil {
				t.Errorf("%s in %s: the next Check: %v", how, where, err)
			}
		}
		closed := make(chan error, 1)
		go func() { closed <- g.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Errorf("%s: Close: %v", how, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: Close hangs", how)
		}
		if live := d.Live(); len(live) > 0 {
			t.Errorf("%s: left %v", how, live)
		}
	}
}

// TestReenter checks that the functions of a case may call Ferry and Check, and may close the GPU.
func TestReenter(t *testing.T) {
	for where, change := range map[string]func(c *Case, f func()){
		"Launch": func(c *Case, f func()) {
			c.File, c.Launch = "", func(*Launch) error { f(); return ferry.ErrClosed }
		},
		"Want": func(c *Case, f func()) { want := c.Want; c.Want = func(a *Args) { f(); want(a) } },
		"Configs": func(c *Case, f func()) {
			c.Blocks, c.Configs = nil, func(n int) []ferry.LaunchConfig { f(); return []ferry.LaunchConfig{ferry.Cover(n, 32)} }
		},
	} {
		soft, err := softgpu.Open(softgpu.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := fault.Wrap(soft, fault.Options{})
		g, err := ferry.OpenDriver(d, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, calls := scale("scale", 4), 0
		change(c, func() {
			calls++
			if err := Check(t.Context(), g, scale("scale", 4)); err != nil && calls == 1 {
				t.Errorf("%s: the inner Check: %v", where, err)
			}
			if err := g.Close(); err != nil {
				t.Errorf("%s: Close: %v", where, err)
			}
		})
		done := make(chan error, 1)
		go func() { done <- Check(t.Context(), g, c) }()
		select {
		case err = <-done:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: Check hangs", where)
		}
		if err != nil && !errors.Is(err, ferry.ErrClosed) || calls == 0 {
			t.Errorf("%s: %v after %d calls", where, err, calls)
		}
		if live := d.Live(); len(live) > 0 {
			t.Errorf("%s: left %v", where, live)
		}
	}
}

// TestCheckAfterFault checks that Check makes no launch on a GPU whose context is lost, and
// that the error wraps the fault.
func TestCheckAfterFault(t *testing.T) {
	err := Check(t.Context(), open(t), scale("scale_unbounded", 3, 5))
	if fault, ok := errors.AsType[*cu.Fault](err); !ok || fault.Kernel != "scale_unbounded" {
		t.Errorf("got %v", err)
	}
	if text := err.Error(); !strings.Contains(text, "no further launch was made") || strings.Contains(text, "N=5") {
		t.Errorf("got %v", err)
	}
}

// TestCheckEnds checks that a canceled context ends Check.
func TestCheckEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Check(ctx, open(t), scale("scale", 1000)); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestLeaks checks that Run and Check close all that they open, also after failures.
func TestLeaks(t *testing.T) {
	leaks := make(chan string, 100)
	ferry.OnLeak(func(text string) { leaks <- text })
	defer ferry.OnLeak(nil)
	for _, kernel := range []string{"scale", "scale_short", "scale_unbounded", "absent"} {
		g, err := ferry.Open("soft")
		if err != nil {
			t.Fatal(err)
		}
		_ = Check(t.Context(), g, scale(kernel, 1, 33))
		_ = g.Close()
		if g, err = ferry.Open("soft"); err != nil {
			t.Fatal(err)
		}
		s := &session{state: newState(scale(kernel, 1, 33)), g: g, reopen: "soft"} // as in Run
		_ = s.runAll(t.Context())
		s.close()
	}
	for range 3 {
		runtime.GC()
	}
	select {
	case text := <-leaks:
		t.Error(text)
	default:
	}
}

func TestDevices(t *testing.T) {
	for _, c := range []struct {
		chosen   string
		required bool
		want     []device
	}{
		{"", false, []device{{"soft", "soft", false}, {"cuda", "cuda", true}}},
		{"cuda:1", false, []device{{"soft", "soft", false}, {"cuda", "cuda:1", false}}},
		{"soft:gh200", false, []device{{"soft", "soft:gh200", false}}},
		{"soft:gh200", true, []device{{"soft", "soft:gh200", false}, {"cuda", "cuda", true}}},
		{"wrong", false, []device{{"soft", "wrong", false}}},
	} {
		if got := devices(c.chosen, c.required); !slices.Equal(got, c.want) {
			t.Errorf("%q, %v: got %v, want %v", c.chosen, c.required, got, c.want)
		}
	}
}

// TestHardware checks that the subtest "cuda" ran, where a GPU is required.
func TestHardware(t *testing.T) {
	gputest.Driver(t)
	g, err := ferry.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	err = Check(t.Context(), g, scale("scale_unbounded", 32, 30))
	if err == nil || !strings.Contains(err.Error(), "wrote outside of the buffer of 120 bytes") {
		t.Errorf("got %v, want it to find writes in the guard band", err)
	}
}
