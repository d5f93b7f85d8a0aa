package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/forktest"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// forkFixture has an open object of each type, of which some are in flight.
type forkFixture struct {
	*callFixture
	g      *ferry.GPU
	open   map[string]any // objects by type
	pooled *ferry.Host[byte]
	batch  ferry.Batch
	device *ferry.Device[byte]
	timed  *ferry.Event
}

func newForkFixture(t *testing.T) *forkFixture {
	t.Helper()
	g := openTest(t)
	x := &forkFixture{callFixture: newCallFixture(t, g, 1000), g: g, pooled: new(ferry.Host[byte])}
	pinned, module := must(ferry.NewPinnedPool(g, nil))(t), must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	check(t, x.pooled.Alloc(pinned, 100))
	x.device = must(ferry.Alloc[byte](g, 1000))(t)
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
	"GPU.Fallback": "its result is not about the call",
}

// forkedMethods returns the calls of all methods that return an error or may panic with one.
func (x *forkFixture) forkedMethods(t *testing.T) map[string]func() error {
	t.Helper()
	good := map[reflect.Type]any{}
	for _, v := range []any{
		context.Background(), x.stream, x.g, x.timed, x.add, x.open["PinnedPool"], &x.batch, ferry.Grid(1024, 256), func() {}, 1, true, "fill",
		func(*ferry.Stream) error { return nil }, cu.DeviceAttributeWarpSize, x.g.Device(), cu.MemAdviseSetReadMostly, cu.MemAttachGlobal,
	} {
		good[reflect.TypeOf(v)] = v
	}
	good[reflect.TypeFor[context.Context]()] = context.Background()
	good[reflect.TypeFor[[]any]()] = []any{x.floats, x.floats, x.floats, uint64(1024)}
	good[reflect.TypeFor[[]ferry.BoundParam]()] = addParams
	all := map[string]func() error{}
	for of, v := range x.open {
		for m := range reflect.TypeOf(v).Methods() {
			name := of + "." + m.Name
			f := reflect.ValueOf(v).MethodByName(m.Name)
			if _, works := worksForked[name]; works || name == "Host.Alloc" {
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
		"Copy":             x.copy,
		"Copy pageable":    func() error { return ferry.Copy(s, x.device, ferry.Pageable(large[:1000])) },
		"CopyContext":      func() error { return ferry.CopyContext(ctx, s, ferry.Pageable(large[:1000]), x.device) },
		"Upload":           func() error { return last(ferry.Upload(g, large)) },
		"Download":         func() error { return last(ferry.Download(x.device)) },
		"CopyAll":          func() error { return ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: x.device, Src: x.host}}) },
		"CopyFrom":         func() error { return last(ferry.CopyFrom(ctx, s, x.device, bytes.NewReader(large))) },
		"CopyTo":           func() error { return last(ferry.CopyTo(ctx, s, new(strings.Builder), x.device)) },
		"Alloc":            func() error { return last(ferry.Alloc[byte](g, 10)) },
		"AllocPitched":     func() error { _, _, err := ferry.AllocPitched[byte](g, 10, 10); return err },
		"NewEvent":         func() error { return last(ferry.NewEvent(g, nil)) },
		"Fill":             func() error { return ferry.Fill(s, x.device, 1) },
		"AllocHost":        func() error { return last(ferry.AllocHost[byte](g, 10, nil)) },
		"AllocHostContext": func() error { return last(ferry.AllocHostContext[byte](ctx, g, 1<<20, nil)) },
		"PredictPin":       func() error { return last(ferry.PredictPin(g, 1<<20, nil)) },
		"AllocManaged":     func() error { return last(ferry.AllocManaged[byte](g, 10, nil)) },
		"DefaultMemPool":   func() error { return last(ferry.DefaultMemPool(g)) },
		"NewMemPool":       func() error { return last(ferry.NewMemPool(g, nil)) },
		"AllocAsync":       func() error { return last(ferry.AllocAsync[byte](s, 10, nil)) },
		"Load":             func() error { return last(ferry.Load(g, []byte(kernels.PTX), nil)) },
		"LoadFile":         func() error { return last(ferry.LoadFile(g, "kernels/kernels.ptx", nil)) },
		"Link": func() error {
			return last(ferry.Link(g, []ferry.LinkInput{{Name: "a", Image: []byte(kernels.PTX)}}, nil))
		},
		"Global":        func() error { return last(ferry.Global[byte](x.open["Module"].(*ferry.Module), "x")) },
		"ManagedGlobal": func() error { return last(ferry.ManagedGlobal[byte](x.open["Module"].(*ferry.Module), "x")) },
		"Devices":       func() error { return last(ferry.Devices()) },
		"Open":          func() error { return last(ferry.Open("")) },
		"OpenAll":       func() error { return last(ferry.OpenAll("soft")) },
		"OpenDriver":    func() error { return last(ferry.OpenDriver(g.Driver(), 0)) },
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
	if raceEnabled {
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
