//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/dl/dltest"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/test/forktest"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestBrokenDriver: a driver that is there and does not work is an error of GPUs and a reason
// in the line of the fallback. A machine without one, or without a device, has neither.
func TestBrokenDriver(t *testing.T) {
	if os.Getenv("FERRY_BROKEN_CHILD") != "" {
		g := must(ferry.Open(""))(t)
		all, err := ferry.GPUs()
		fmt.Printf("%s, %d listed, %v\n", g, len(all), err)
		closeAll(t, g)
		os.Exit(0)
	}
	for _, c := range []struct {
		what        string
		plant       func(dir string)
		err, reason string // parts, or "" for none
	}{
		{"nothing", func(string) {}, "", ""},
		{"stub", func(dir string) { dltest.Failing(34).Write(t, dir, "libcuda.so.1") }, "", "CUDA_ERROR_STUB_LIBRARY"}, // it is no driver
		{"broken file", func(dir string) {
			check(t, os.WriteFile(filepath.Join(dir, "libcuda.so.1"), []byte(strings.Repeat("text", 100)), 0o755))
		}, "invalid ELF header", "invalid ELF header"},
		{"no device", func(dir string) { dltest.Failing(100).Write(t, dir, "libcuda.so.1") }, "", "CUDA_ERROR_NO_DEVICE"},
		{"starts, and has no device", func(dir string) { dltest.Driver(13000).Write(t, dir, "libcuda.so.1") }, "", "CUDA_ERROR_NO_DEVICE"},
		{"device cannot be described", func(dir string) {
			(&dltest.Library{Functions: []dltest.Function{{Name: "cuInit"}, {Name: "cuDriverGetVersion", Stores: []int32{13000}},
				{Name: "cuDeviceGetCount", Stores: []int32{1}}, {Name: "cuDeviceGet", Result: 999}}}).Write(t, dir, "libcuda.so.1")
		}, "describe cuda:0: CUDA_ERROR_UNKNOWN", "CUDA_ERROR_UNKNOWN"},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			c.plant(dir)
			cmd := exec.Command(os.Args[0], "-test.run=^TestBrokenDriver$")
			cmd.Env = append(os.Environ(), "FERRY_BROKEN_CHILD=1", "FERRY_LIBCUDA=", "FERRY_DEVICE=", "FERRY_QUIET=", "LD_LIBRARY_PATH="+dir)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			text := string(must(cmd.Output())(t))
			if strings.HasPrefix(text, "cuda:") {
				t.Skip("the machine's own driver works")
			}
			if none := strings.HasSuffix(text, "<nil>\n"); none != (c.err == "") || !strings.Contains(text, c.err) ||
				!strings.Contains(text, fmt.Sprintf("%d listed", len(profile.Names()))) {
				t.Errorf("GPUs: %swant %q", text, c.err)
			}
			if got := stderr.String(); !strings.Contains(got, c.reason) || c.reason == "" && got != fallbackHint("") || strings.Count(got, "\n") != 1 {
				t.Errorf("standard error is %q, want %q", got, c.reason)
			}
		})
	}
}

// TestPrivilegedProgram: a set-user-ID program loads no library and reads and writes no file that
// the environment of its user names. The same program without the bit does. LD_LIBRARY_PATH is
// set, because the system's loader then hides from Go that the program is privileged.
func TestPrivilegedProgram(t *testing.T) {
	sample.SkipRace(t)
	if os.Getenv("FERRY_PRIVILEGED_CHILD") != "" {
		privilegedChild(t)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o777))
	program := filepath.Join(dir, "program")
	check(t, os.WriteFile(program, must(os.ReadFile(must(os.Executable())(t)))(t), 0o755))
	const nobody = 65534
	check(t, os.Chown(program, nobody, -1))
	machine := filepath.Join(dir, "mine.json")
	check(t, os.WriteFile(machine, must(os.ReadFile("profile/fermi-c2050.json"))(t), 0o644))
	library := dltest.Failing(34).Write(t, dir, "libcuda.so.1")
	for _, c := range []struct {
		mode       os.FileMode
		privileged bool
	}{{0o755, false}, {0o755 | os.ModeSetuid, true}} {
		check(t, os.Chmod(program, c.mode))
		for device, want := range map[string]string{"soft:" + machine: "fermi-c2050", "": "h200"} {
			trace, report := filepath.Join(dir, "trace"), filepath.Join(dir, "report")
			cmd := exec.Command(program, "-test.run=^TestPrivilegedProgram$")
			cmd.Env = append(os.Environ(), "FERRY_PRIVILEGED_CHILD=1", "FERRY_LIBCUDA="+library, "FERRY_DEVICE="+device,
				"FERRY_TRACE="+trace, "FERRY_CHECK_REPORT="+report, "FERRY_QUIET=1", "LD_LIBRARY_PATH=/nowhere")
			cmd.Dir = "/"
			out, err := cmd.CombinedOutput()
			text := string(out)
			if err == nil && c.privileged && strings.HasPrefix(text, "false same") {
				t.Skip("set-user-ID has no effect on this file system")
			}
			if c.privileged && strings.Contains(text, " hardware ") {
				continue // the machine's own driver works
			}
			if c.privileged {
				want = "h200"
			}
			if err != nil || !strings.HasPrefix(text, fmt.Sprintf("%t ", c.privileged)) || !strings.Contains(text, " "+want+" ") {
				t.Fatalf("privileged %t, device %q: %v, %swant %s", c.privileged, device, err, text, want)
			}
			if device == "" && strings.Contains(text, "CUDA_ERROR_STUB_LIBRARY") == c.privileged {
				t.Errorf("privileged %t: the library of FERRY_LIBCUDA: %s", c.privileged, text)
			}
			for _, file := range []string{trace, report} {
				if _, err := os.Stat(file); (err == nil) == c.privileged {
					t.Errorf("privileged %t, device %q: %s: %v", c.privileged, device, filepath.Base(file), err)
				}
				_ = os.Remove(file)
			}
		}
	}
}

// privilegedChild opens a device and prints what the environment did.
func privilegedChild(t *testing.T) {
	users := "same"
	if os.Getuid() != os.Geteuid() {
		users = "other"
	}
	g := must(ferry.Open(""))(t)
	checks.Append(checks.Row{})
	profile := g.Profile()
	if !g.Emulated() {
		profile = "hardware"
	}
	fmt.Println(secureenv.Privileged(), users, profile, g.Fallback())
	check(t, g.Close())
	os.Exit(0)
}

// forkFixture has an open object of each type, of which some are in flight.
type forkFixture struct {
	*callFixture
	g      *ferry.GPU
	open   map[string]any // objects by type
	pooled *ferry.Host[byte]
	batch  ferry.Batch
	device *ferry.Device[byte]
	words  *ferry.Device[uint32]
	timed  *ferry.Event
}

func newForkFixture(t *testing.T) *forkFixture {
	t.Helper()
	g := openTest(t)
	x := &forkFixture{callFixture: newCallFixture(t, g, 1000), g: g, pooled: new(ferry.Host[byte])}
	pinned, module := must(ferry.NewPinnedPool(g, nil))(t), must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	check(t, x.pooled.Alloc(pinned, 100))
	x.device = must(ferry.Alloc[byte](g, 1000))(t)
	x.words = must(ferry.Alloc[uint32](g, 10))(t)
	graph := must(x.stream.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, x.device, 7) }))(t)
	managed := must(ferry.AllocManaged[float32](g, 1000, nil))(t)
	host := must(ferry.AllocHost[float32](g, 1024, nil))(t)
	pool := must(ferry.NewMemPool(g, nil))(t)
	x.timed = must(ferry.NewEvent(g, nil))(t)
	check(t, ferry.Fill(&x.batch, x.device, 1))
	x.open = map[string]any{
		"GPU": g, "Stream": x.stream, "Event": x.timed, "Device": x.floats, "Host": host, "Managed": managed,
		"Graph": graph, "Module": module, "PinnedPool": pinned, "MemPool": pool,
	}
	check(t, x.stream.Record(x.timed))
	open := gate(t, x.stream)
	check(t, ferry.Copy(x.stream, host, x.floats))
	check(t, ferry.Copy(x.stream, x.pooled, x.device.Range(0, 100)))
	check(t, graph.Launch(x.stream))
	t.Cleanup(func() {
		open()
		closeAll(t, x.timed, graph, host, x.pooled, x.device, managed, module, pinned, pool)
	})
	return x
}

// worksForked are methods of open objects that return no error in a forked child, and why.
var worksForked = map[string]string{
	"GPU.Fallback":     "its result is not about the call",
	"PinnedPool.Stats": "it makes no driver call",
}

// forkedMethods returns the calls of all methods that return an error or may panic with one.
func (x *forkFixture) forkedMethods(t *testing.T) map[string]func() error {
	t.Helper()
	good := map[reflect.Type]any{}
	for _, v := range []any{
		context.Background(), x.stream, x.g, x.timed, x.add, x.open["PinnedPool"], &x.batch, ferry.Cover(1024, 256), func() {}, 1, true, "fill",
		func(*ferry.Stream) error { return nil }, cu.DeviceAttributeWarpSize, x.g.CUDevice(), cu.MemAdviseSetReadMostly, cu.MemAttachGlobal,
	} {
		good[reflect.TypeOf(v)] = v
	}
	good[reflect.TypeFor[context.Context]()] = context.Background()
	good[reflect.TypeFor[func() error]()] = func() error { return nil }
	good[reflect.TypeFor[func(cu.Stream) error]()] = func(cu.Stream) error { return nil }
	good[reflect.TypeFor[[]ferry.Use]()] = []ferry.Use{}
	good[reflect.TypeFor[[]any]()] = []any{x.floats, x.floats, x.floats, uint64(1024)}
	all := map[string]func() error{}
	for of, v := range x.open {
		for m := range reflect.TypeOf(v).Methods() {
			name := of + "." + m.Name
			f := reflect.ValueOf(v).MethodByName(m.Name)
			if _, works := worksForked[name]; works {
				continue
			}
			if n := f.Type().NumOut(); !mayPanic(name) && (n == 0 || f.Type().Out(n-1) != reflect.TypeFor[error]()) {
				continue
			}
			var args []reflect.Value
			for i := range f.Type().NumIn() {
				arg, ok := good[f.Type().In(i)]
				if !ok {
					t.Fatalf("%s: there is no argument of type %v", name, f.Type().In(i))
				}
				args = append(args, reflect.ValueOf(arg))
			}
			all[name] = func() error { return callError(f, args) }
		}
	}
	return all
}

// callError returns the error that a function returns or panics with.
func callError(f reflect.Value, args []reflect.Value) error {
	results, panicked := call(f, args)
	if panicked != nil {
		if err, ok := panicked.(error); ok {
			return err
		}
		return fmt.Errorf("panic: %v", panicked)
	}
	err, _ := errorOf(f.Type(), results)
	return err
}

// forkedFunctions are the calls of all exported functions that return an error, by name, and some
// more with other memory.
func (x *forkFixture) forkedFunctions() map[string]func() error {
	g, s, ctx := x.g, x.stream, context.Background()
	large := make([]byte, 4<<20)
	return map[string]func() error{
		"Copy":          x.copy,
		"Copy pageable": func() error { return ferry.Copy(s, x.device, ferry.Pageable(large[:1000])) },
		"CopyContext":   func() error { return ferry.CopyContext(ctx, s, ferry.Pageable(large[:1000]), x.device) },
		"Upload":        func() error { return last(ferry.Upload(g, large)) },
		"Download":      func() error { return last(ferry.Download(x.device)) },
		"CopyAll":       func() error { return ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: x.device, Src: x.host}}) },
		"CopyFrom":      func() error { return last(ferry.CopyFrom(ctx, s, x.device, bytes.NewReader(large))) },
		"CopyParts": func() error {
			return last(ferry.CopyParts(ctx, s, []ferry.ReadPart{{Src: bytes.NewReader(large), Dst: x.device}}, nil))
		},
		"CopyPartsTo": func() error {
			return last(ferry.CopyPartsTo(ctx, s, new(strings.Builder), []ferry.Memory[byte]{x.device}, nil))
		},
		"CopyTo":           func() error { return last(ferry.CopyTo(ctx, s, new(strings.Builder), x.device)) },
		"Alloc":            func() error { return last(ferry.Alloc[byte](g, 10)) },
		"AllocPitched":     func() error { _, _, err := ferry.AllocPitched[byte](g, 10, 10); return err },
		"AllocVirtual":     func() error { return last(ferry.AllocVirtual[byte](g, 10, nil)) },
		"Share":            func() error { return last(ferry.Share(x.device)) },
		"Import":           func() error { return last(ferry.Import[byte](g, os.Stdin, 10)) },
		"NewEvent":         func() error { return last(ferry.NewEvent(g, nil)) },
		"Fill":             func() error { return ferry.Fill(s, x.device, 1) },
		"WriteValue":       func() error { return ferry.WriteValue(s, x.words, 1) },
		"WaitValue":        func() error { return ferry.WaitValue(s, x.words, cu.StreamWaitValueEQ, 0) },
		"AllocHost":        func() error { return last(ferry.AllocHost[byte](g, 10, nil)) },
		"AllocHostContext": func() error { return last(ferry.AllocHostContext[byte](ctx, g, 1<<20, nil)) },
		"AllocManaged":     func() error { return last(ferry.AllocManaged[byte](g, 10, nil)) },
		"WrapDevice":       func() error { return last(ferry.WrapDevice[byte](g, x.device.Pointer(), 10, nil)) },
		"WrapHost":         func() error { return last(ferry.WrapHost(g, large, nil)) },
		"WrapManaged":      func() error { return last(ferry.WrapManaged[byte](g, x.device.Pointer(), 10, nil)) },
		"WrapStream":       func() error { return last(ferry.WrapStream(g, s.Handle())) },
		"WrapEvent":        func() error { return last(ferry.WrapEvent(g, 1)) },
		"NewMemPool":       func() error { return last(ferry.NewMemPool(g, nil)) },
		"AllocAsync":       func() error { return last(ferry.AllocAsync[byte](s, 10, nil)) },
		"Load":             func() error { return last(ferry.Load(g, []byte(kernels.PTX), nil)) },
		"LoadFile":         func() error { return last(ferry.LoadFile(g, "kernels/kernels.ptx", nil)) },
		"Link": func() error {
			return last(ferry.Link(g, []ferry.LinkInput{{Name: "a", Image: []byte(kernels.PTX)}}, nil))
		},
		"Global":        func() error { return last(ferry.Global[byte](x.open["Module"].(*ferry.Module), "x")) },
		"ManagedGlobal": func() error { return last(ferry.ManagedGlobal[byte](x.open["Module"].(*ferry.Module), "x")) },
		"GPUs":          func() error { return last(ferry.GPUs()) },
		"Open":          func() error { return last(ferry.Open("")) },
		"OpenAll":       func() error { return last(ferry.OpenAll("soft")) },
		"OpenDriver":    func() error { return last(ferry.OpenDriver(g.Driver(), 0)) },
		"HostStats":     func() error { return last(ferry.HostStats(g)) },
		"MemoryPlaces":  func() error { return last(ferry.MemoryPlaces(g)) },
		"NewPinnedPool": func() error { return last(ferry.NewPinnedPool(g, nil)) },
		"CopyRect": func() error {
			return ferry.CopyRect(s, ferry.Rect[byte]{Memory: x.device, Width: 10, Height: 2}, ferry.Rect[byte]{Memory: x.host, Width: 10, Height: 2})
		},
		"Register":  func() error { return last(ferry.Register(g, large, nil)) },
		"NewStream": func() error { return last(ferry.NewStream(g, nil)) },
		"Host.Alloc": func() error {
			var h ferry.Host[byte]
			return h.Alloc(x.open["PinnedPool"].(*ferry.PinnedPool), 10)
		},
		"Host.Close in a pool": func() error { return x.pooled.Close() },
		"launch":               func() error { return x.launch(1024) },
		"new software GPU": func() error {
			d, err := softgpu.Open(softgpu.Options{})
			if err == nil {
				err = d.Init(0)
			}
			return err
		},
	}
}

// TestForkedChild: in a child that a raw fork makes, every function and method that returns an
// error returns cu.ErrorNotInitialized in one line, with both process ids. None hangs, also while
// copies are in flight. The parent goes on.
func TestForkedChild(t *testing.T) {
	if racebuild.On {
		t.Skip("the race detector's threads are not in a forked child")
	}
	if !inHelper(t) {
		runHelper(t)
		return
	}
	x := newForkFixture(t)
	all := x.forkedFunctions()
	for name, d := range declared(t) {
		if d.fails && !strings.Contains(name, ".") && all[name] == nil {
			t.Errorf("there is no call of %s", name)
		}
	}
	for name, f := range x.forkedMethods(t) {
		all[name] = f
	}
	if len(all) < 80 {
		t.Errorf("only %d calls", len(all))
	}
	parent := fmt.Sprintf("was made by fork from process %d, which started the driver", os.Getpid())
	const lacking = "the machine of this test lacks it"
	machine, _ := gputest.Chosen(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, err := forktest.Run(func() string {
			switch err := all[name](); {
			case err == nil:
				return "no error"
			case machine.Explains(err): // without a driver call
				return lacking
			case !errors.Is(err, cu.ErrorNotInitialized):
				return "another error: " + err.Error()
			default:
				return err.Error()
			}
		})
		switch {
		case err != nil:
			t.Errorf("%s: %v (%s)", name, err, text)
		case text == lacking:
		case strings.Count(text, parent) != 1 || !strings.Contains(text, "CUDA_ERROR_NOT_INITIALIZED: process ") || strings.Contains(text, "\n"):
			t.Errorf("%s: got %q, want one line with the reason", name, text)
		}
	}
}
