package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/softgpu"
)

// call calls a function. panicked is the value that it panicked with, or nil.
func call(f reflect.Value, args []reflect.Value) (results []reflect.Value, panicked any) {
	defer func() { panicked = recover() }()
	if f.Type().IsVariadic() {
		return f.CallSlice(args), nil
	}
	return f.Call(args), nil
}

// errorOf returns the last result if its type is error. ok is false for another type.
func errorOf(f reflect.Type, results []reflect.Value) (err error, ok bool) { //nolint:staticcheck // ok comes last
	n := f.NumOut()
	if n == 0 || f.Out(n-1) != reflect.TypeFor[error]() {
		return nil, false
	}
	err, _ = results[n-1].Interface().(error)
	return err, true
}

// zeros returns zero values for all parameters.
func zeros(f reflect.Type) []reflect.Value {
	var args []reflect.Value
	for i := range f.NumIn() {
		args = append(args, reflect.Zero(f.In(i)))
	}
	return args
}

// mayPanic reports whether a method may panic, which only two methods of three types may.
func mayPanic(name string) bool {
	return slices.Contains([]string{"Host.Slice", "Host.ReadSlice", "Managed.Slice", "Managed.ReadSlice", "MemoryView.Slice", "MemoryView.ReadSlice"}, name)
}

// TestNilReceivers: no method of a nil pointer or of a new value panics, except Slice and
// ReadSlice. For a nil pointer, methods that return an error return that something is nil.
// Other methods return zero values.
func TestNilReceivers(t *testing.T) {
	for _, r := range receivers {
		for m := range reflect.TypeOf(r).Methods() {
			name := typeOf(r) + "." + m.Name
			for _, v := range []reflect.Value{reflect.ValueOf(r), reflect.New(reflect.TypeOf(r).Elem())} {
				f := v.MethodByName(m.Name)
				results, panicked := call(f, zeros(f.Type()))
				if panicked != nil {
					err, ok := panicked.(error)
					if !mayPanic(name) || !ok || !v.IsNil() {
						t.Errorf("%s panics for %#v: %v", name, v, panicked)
						continue
					}
					wantError(t, err, cu.ErrorInvalidValue, "host access", "nil")
				} else if v.IsNil() {
					wantNothing(t, name, f.Type(), results)
				}
			}
		}
	}
}

// wantNothing checks what a method of a nil pointer returns.
func wantNothing(t *testing.T, name string, f reflect.Type, results []reflect.Value) {
	t.Helper()
	_, method, _ := strings.Cut(name, ".")
	err, ok := errorOf(f, results)
	switch {
	case method == "Close":
		if err != nil {
			t.Errorf("%s of nil: %v", name, err)
		}
	case method == "String" || method == "Error":
		if got := results[0].String(); !strings.HasPrefix(got, "no ") {
			t.Errorf("%s of nil is %q, want \"no ...\"", name, got)
		}
	case method == "Range" || method == "Bytes":
		wait := results[0].MethodByName("Wait")
		if !wait.IsValid() { // pageable memory
			return
		}
		err, _ := errorOf(wait.Type(), wait.Call(zeros(wait.Type())))
		wantError(t, err, cu.ErrorInvalidValue, "nil")
	case mayPanic(name):
		t.Errorf("%s of nil does not panic", name)
	case name == "PinError.Unwrap" || name == "PartError.Unwrap":
		if err != nil {
			t.Errorf("%s of nil is %v", name, err)
		}
	case name == "GPU.Fallback":
		if err != nil {
			t.Errorf("%s of nil is %v", name, err)
		}
	case ok:
		if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s of nil returns %v, want cu.ErrorInvalidValue", name, err)
		}
	default:
		for i, r := range results {
			if !r.IsZero() {
				t.Errorf("%s of nil: result %d is %v, want a zero value", name, i, r)
			}
		}
	}
}

// badInput has what calls with bad input need, and a device and a host buffer that no such call
// may change.
type badInput struct {
	*callFixture
	g, other, closed *ferry.GPU
	far              *ferry.Stream // of other
	want             []byte        // of host and device
	module           *ferry.Module
	graph            *ferry.Graph
	pinned, empty    *ferry.PinnedPool // empty is closed
	pool             *ferry.MemPool
	words            *ferry.Device[uint32]
}

func newBadInput(t *testing.T) *badInput {
	t.Helper()
	g := openSoft(t, "h200", softgpu.Eager)
	x := &badInput{callFixture: newCallFixture(t, g, 1000), g: g, other: openSoft(t, "h200", softgpu.Eager), closed: openSoft(t, "h200", softgpu.Eager)}
	x.far = must(ferry.NewStream(x.other, nil))(t)
	x.module, _ = load(t, g, "fill")
	x.graph = must(x.stream.Capture(func(*ferry.Stream) error { return nil }))(t)
	x.pinned, x.empty = must(ferry.NewPinnedPool(g, nil))(t), must(ferry.NewPinnedPool(g, nil))(t)
	x.pool = must(ferry.NewMemPool(g, nil))(t)
	x.words = must(ferry.Alloc[uint32](g, 10))(t)
	closeAll(t, x.closed, x.empty)
	x.want = make([]byte, 1000)
	fillRandom(x.want)
	copy(x.host.Slice(), x.want)
	check(t, ferry.Copy(x.stream, x.device, x.host))
	t.Cleanup(func() { closeAll(t, x.far, x.module, x.graph, x.pinned, x.pool, x.words) })
	return x
}

// wantUnchanged checks that no call changed memory, and that the GPUs still work.
func (x *badInput) wantUnchanged(t *testing.T) {
	t.Helper()
	wantBytes(t, must(ferry.Download(x.device))(t), x.want)
	wantBytes(t, x.host.Slice(), x.want)
	check(t, x.launch(1024))
	check(t, x.g.Wait(context.Background()))
	check(t, x.other.Wait(context.Background()))
}

// refusedCall is a call that must fail: with is, or with cu.ErrorInvalidValue if is is nil.
type refusedCall struct {
	call func() error
	part string // of the error's text
	is   error
}

// wantRefused makes the calls. None may panic.
func wantRefused(t *testing.T, name string, calls []refusedCall) {
	t.Helper()
	for i, c := range calls {
		is := c.is
		if is == nil {
			is = cu.ErrorInvalidValue
		}
		err := func() (err error) {
			defer func() {
				if v := recover(); v != nil {
					t.Errorf("%s, call %d: panic: %v", name, i, v)
					err = is
				}
			}()
			return c.call()
		}()
		switch {
		case !errors.Is(err, is):
			t.Errorf("%s, call %d: got error %v, want %v", name, i, err, is)
		case !strings.Contains(err.Error(), c.part):
			t.Errorf("%s, call %d: got %q, want %q in it", name, i, err, c.part)
		}
	}
}

// last returns the last of two results.
func last[T any](_ T, err error) error { return err }

func last3[T, U any](_ T, _ U, err error) error { return err }

// copyPart copies one part from a source of four bytes.
func copyPart(x *badInput, p ferry.ReadPart) error {
	p.Src = strings.NewReader("1234")
	return last(ferry.CopyParts(context.Background(), x.stream, []ferry.ReadPart{p}, nil))
}

// TestBadArguments: nil and impossible arguments of every function are errors. Functions
// without a result for errors return nothing.
func TestBadArguments(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeCanUseHostPointerForRegisteredMem, cu.DeviceAttributeManagedMemory)
	x := newBadInput(t)
	var (
		noGPU    *ferry.GPU
		noStream *ferry.Stream
		noBatch  *ferry.Batch
		noQueue  ferry.Queue
		noDevice *ferry.Device[byte]
		noMemory ferry.Memory[byte]
		ctx      = context.Background()
		batch    ferry.Batch
		rect     = ferry.Rect[byte]{Memory: x.device, Width: 10, Height: 10}
		here     = ferry.Rect[byte]{Memory: x.host, Width: 10, Height: 10}
	)
	nothing := map[string]func() bool{ // whether the function returns nothing
		"Cover": func() bool {
			none := ferry.LaunchConfig{}
			return ferry.Cover(-1, 1) == none && ferry.Cover(1, 0) == none && ferry.Cover(math.MinInt, math.MinInt) == none && ferry.Cover(1, math.MaxInt) == none
		},
		"Cover2D": func() bool {
			none := ferry.LaunchConfig{}
			return ferry.Cover2D(-1, 1, 1, 1) == none && ferry.Cover2D(1, -1, 1, 1) == none && ferry.Cover2D(1, 1, 0, 1) == none && ferry.Cover2D(1, 1, 1, math.MaxInt) == none
		},
		"OnLeak":   func() bool { ferry.OnLeak(nil); return true },
		"Log":      func() bool { ferry.Log(nil); return true },
		"Pageable": func() bool { return ferry.Pageable[byte](nil).Len() == 0 && ferry.Pageable[byte](nil).Size() == 0 },
		"Runs":     func() bool { return ferry.Runs((*ferry.Kernel)(nil)) == ferry.Runs((*ferry.Graph)(nil)) },
		"Reads":    func() bool { return ferry.Reads[byte](nil) == ferry.Use{} },
		"Writes":   func() bool { return ferry.Writes((*ferry.Device[byte])(nil)) == ferry.Use{} },
		"Synchronous": func() bool {
			return !ferry.Synchronous(nil, rect.Memory, here.Memory) && !ferry.Synchronous(new(ferry.Stream), rect.Memory, here.Memory) &&
				!ferry.Synchronous[byte](x.stream, nil, x.host) && !ferry.Synchronous[byte](x.stream, noDevice, ferry.Pageable(x.want)) &&
				!ferry.Synchronous[byte](x.stream, x.device, ferry.Pageable(x.want[1:]))
		},
		"GPUs": func() bool { return true }, // has no parameters
	}
	huge := []int{-1, math.MinInt}
	refused := map[string][]refusedCall{
		"Open":    {{call: func() error { return last(ferry.Open("sofa")) }, part: "sofa"}, {call: func() error { return last(ferry.Open("soft:h200*0")) }, part: "number of devices"}},
		"OpenAll": {{call: func() error { return last(ferry.OpenAll("\x00")) }, part: "no such device"}, {call: func() error { return last(ferry.OpenAll("cuda:-1")) }, part: "not a device number"}},
		"OpenDriver": {
			{call: func() error { return last(ferry.OpenDriver(nil, 0)) }, part: "no driver given"},
			{call: func() error { return last(ferry.OpenDriver((*softgpu.Driver)(nil), 0)) }, part: "not made by Open", is: cu.ErrorNotInitialized},
			{call: func() error { return last(ferry.OpenDriver(new(softgpu.Driver), 0)) }, part: "not made by Open", is: cu.ErrorNotInitialized},
			{call: func() error { return last(ferry.OpenDriver((*libcuda.Driver)(nil), 0)) }, part: "not made by Open", is: cu.ErrorNotInitialized},
			{call: func() error { return last(ferry.OpenDriver(new(libcuda.Driver), 0)) }, part: "not made by Open", is: cu.ErrorNotInitialized},
			{call: func() error { return last(ferry.OpenDriver(x.g.Driver(), math.MaxInt)) }, is: cu.ErrorInvalidDevice},
			{call: func() error { return last(ferry.OpenDriver(x.g.Driver(), math.MinInt)) }, is: cu.ErrorInvalidDevice},
		},
		"Copy": {
			{call: func() error { return ferry.Copy[byte](nil, x.device, x.host) }, part: "no stream given"},
			{call: func() error { return ferry.Copy[byte](noQueue, x.device, x.host) }, part: "no stream given"},
			{call: func() error { return ferry.Copy[byte](noStream, x.device, x.host) }, part: "no stream given"},
			{call: func() error { return ferry.Copy[byte](new(ferry.Stream), x.device, x.host) }, part: "no stream given"},
			{call: func() error { return ferry.Copy[byte](noBatch, x.device, x.host) }, part: "no batch given"},
			{call: func() error { return ferry.Copy[byte](x.stream, nil, x.host) }, part: "no buffer given"},
			{call: func() error { return ferry.Copy[byte](x.stream, x.device, noDevice) }, part: "no buffer given"},
			{call: func() error { return ferry.Copy[byte](x.stream, x.device, noMemory) }, part: "no buffer given"},
			{call: func() error { return ferry.Copy[byte](x.stream, noDevice, ferry.Pageable(x.want)) }, part: "no buffer given"},
			{call: func() error { return ferry.Copy[byte](x.stream, new(ferry.Device[byte]), x.host) }, part: "has 0 elements"},
			{call: func() error { return ferry.Copy[byte](&batch, noDevice, x.host) }, part: "no buffer given"},
			{call: func() error { return ferry.Copy[byte](x.stream, x.device.Range(math.MinInt, math.MaxInt), x.host) }, part: "range ["},
			{call: func() error { return ferry.Copy[byte](x.stream, x.device.Range(1, 5).Range(2, 5), x.host) }, part: "range [2:5]"},
		},
		"CopyContext": {
			{call: func() error { return ferry.CopyContext[byte](ctx, nil, x.device, x.host) }, part: "no stream given"},
			{call: func() error { return ferry.CopyContext[byte](ctx, x.stream, noDevice, x.host) }, part: "no buffer given"},
			{call: func() error { return ferry.CopyContext[byte](ctx, x.stream, x.device, nil) }, part: "no buffer given"},
		},
		"CopyAll": {
			{call: func() error { return ferry.CopyAll(nil, []ferry.Pair[byte]{{Dst: x.device, Src: x.host}}) }, part: "no stream given"},
			{call: func() error { return ferry.CopyAll(noBatch, []ferry.Pair[byte]{{Dst: x.device, Src: x.host}}) }, part: "no batch given"},
			{call: func() error { return ferry.CopyAll(noStream, []ferry.Pair[byte](nil)) }, part: "no stream given"},
			{call: func() error { return ferry.CopyAll(x.stream, []ferry.Pair[byte]{{}}) }, part: "copy 1 of 1"},
			{call: func() error { return ferry.CopyAll(&batch, []ferry.Pair[byte]{{Dst: noDevice, Src: x.host}}) }, part: "no buffer given"},
		},
		"CopyRect": {
			{call: func() error { return ferry.CopyRect(nil, rect, here) }, part: "no stream given"},
			{call: func() error { return ferry.CopyRect(noStream, rect, here) }, part: "no stream given"},
			{call: func() error {
				rect := rect
				rect.Pitch = 20
				return ferry.CopyRect(noStream, rect, here)
			}, part: "no stream given"},
			{call: func() error { return ferry.CopyRect(noBatch, rect, here) }, part: "no batch given"},
			{call: func() error { return ferry.CopyRect(x.stream, ferry.Rect[byte]{}, here) }, part: "no buffer given"},
			{call: func() error { return ferry.CopyRect(x.stream, ferry.Rect[byte]{Memory: noDevice}, here) }, part: "no buffer given"},
			{call: func() error {
				return ferry.CopyRect(x.stream, ferry.Rect[byte]{Memory: x.device, Width: 10, Height: math.MaxInt, Pitch: math.MaxInt}, here)
			}, part: "needs"},
			{call: func() error {
				return ferry.CopyRect(x.stream, ferry.Rect[byte]{Memory: x.device, Width: 10, Height: 10, Depth: math.MinInt}, here)
			}, part: "negative"},
			{call: func() error {
				return ferry.CopyRect(x.stream, ferry.Rect[byte]{Memory: x.device, Width: math.MaxInt, Height: 2, Pitch: math.MaxInt}, here)
			}, part: "needs"},
		},
		"CopyFrom": {
			{call: func() error { return last(ferry.CopyFrom[byte](ctx, nil, x.device, bytes.NewReader(x.want))) }, part: "no stream given"},
			{call: func() error { return last(ferry.CopyFrom[byte](ctx, x.stream, nil, bytes.NewReader(x.want))) }, part: "no buffer given"},
			{call: func() error { return last(ferry.CopyFrom[byte](ctx, x.stream, x.device, nil)) }, part: "no reader given"},
			{call: func() error {
				return last(ferry.CopyFrom[byte](ctx, x.stream, x.device.Range(3, 2), bytes.NewReader(x.want)))
			}, part: "range [3:2]"},
		},
		"CopyParts": {
			{call: func() error { return last(ferry.CopyParts(ctx, nil, nil, nil)) }, part: "no stream given"},
			{call: func() error { return last(ferry.CopyParts(ctx, x.stream, make([]ferry.ReadPart, 1), nil)) }, part: "part 1 of 1, to no buffer from byte 0, on stream 1 of soft:h200: no source given"},
			{call: func() error {
				return last(ferry.CopyParts(ctx, x.stream, []ferry.ReadPart{{Src: strings.NewReader("")}}, nil))
			}, part: "no buffer given"},
			{call: func() error { return copyPart(x, ferry.ReadPart{Off: -1, Dst: x.device}) }, part: "the offset in the source is -1"},
			{call: func() error { return copyPart(x, ferry.ReadPart{Off: math.MaxInt64, Dst: x.device}) }, part: "beyond 4611686018427387904"},
			{call: func() error { return copyPart(x, ferry.ReadPart{Dst: x.device.Range(3, 2)}) }, part: "range [3:2]"},
			{call: func() error {
				return copyPart(x, ferry.ReadPart{Dst: x.device, Also: []ferry.Memory[byte]{x.device.Range(1, 3)}})
			}, part: "in Also has 2 bytes"},
			{call: func() error { return copyPart(x, ferry.ReadPart{Dst: x.device, Also: []ferry.Memory[byte]{nil}}) }, part: "no buffer given"},
		},
		"CopyPartsTo": {
			{call: func() error { return last(ferry.CopyPartsTo(ctx, nil, io.Discard, nil, nil)) }, part: "no stream given"},
			{call: func() error { return last(ferry.CopyPartsTo(ctx, x.stream, nil, nil, nil)) }, part: "no writer given"},
			{call: func() error {
				return last(ferry.CopyPartsTo(ctx, x.stream, io.Discard, []ferry.Memory[byte]{x.device, nil}, nil))
			}, part: "part 2 of 2, no buffer, on stream 1 of soft:h200: no buffer given"},
			{call: func() error {
				return last(ferry.CopyPartsTo(ctx, x.stream, io.Discard, []ferry.Memory[byte]{noDevice}, nil))
			}, part: "no buffer given"},
		},
		"CopyTo": {
			{call: func() error { return last(ferry.CopyTo[byte](ctx, nil, io.Discard, x.device)) }, part: "no stream given"},
			{call: func() error { return last(ferry.CopyTo[byte](ctx, x.stream, io.Discard, noDevice)) }, part: "no buffer given"},
			{call: func() error { return last(ferry.CopyTo[byte](ctx, x.stream, nil, x.device)) }, part: "no writer given"},
		},
		"Download": {
			{call: func() error { return last(ferry.Download[byte](nil)) }, part: "no buffer given"},
			{call: func() error { return last(ferry.Download[byte](noDevice)) }, part: "no buffer given"},
			{call: func() error { return last(ferry.Download[byte](x.device.Range(0, 1001))) }, part: "range [0:1001]"},
		},
		"Fill": {
			{call: func() error { return ferry.Fill[byte](nil, x.device, 1) }, part: "no stream given"},
			{call: func() error { return ferry.Fill[byte](noStream, x.device, 1) }, part: "no stream given"},
			{call: func() error { return ferry.Fill[byte](noBatch, x.device, 1) }, part: "no batch given"},
			{call: func() error { return ferry.Fill[byte](x.stream, nil, 1) }, part: "no buffer given"},
			{call: func() error { return ferry.Fill[byte](x.stream, noDevice, 1) }, part: "no buffer given"},
			{call: func() error { return ferry.Fill[byte](&batch, noDevice, 1) }, part: "no buffer given"},
			{call: func() error { return ferry.Fill[byte](x.stream, new(ferry.Device[byte]), 1) }, part: "ordinary Go memory"},
		},
		"WrapDevice": {
			{call: func() error { return last(ferry.WrapDevice[byte](nil, 256, 1, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.WrapDevice[byte](x.g, 0, 1, nil)) }, part: "no address given"},
			{call: func() error { return last(ferry.WrapDevice[byte](x.g, x.device.Pointer(), math.MinInt, nil)) }, part: "negative"},
			{call: func() error { return last(ferry.WrapDevice[byte](x.g, x.device.Pointer(), math.MaxInt, nil)) }, part: "wrap fewer elements"},
			{call: func() error { return last(ferry.WrapDevice[int](x.g, x.device.Pointer(), math.MaxInt, nil)) }, is: cu.ErrorOutOfMemory},
		},
		"WrapHost": {
			{call: func() error { return last(ferry.WrapHost(nil, x.want, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.WrapHost(x.g, make([]bool, 1), nil)) }, part: "bool"},
			{call: func() error { return last(ferry.WrapHost(x.g, make([]byte, 1), nil)) }, part: "does not know"},
		},
		"WrapManaged": {
			{call: func() error { return last(ferry.WrapManaged[byte](nil, 256, 1, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.WrapManaged[byte](x.g, x.device.Pointer(), 1, nil)) }, part: "use WrapDevice"},
		},
		"WrapStream": {
			{call: func() error { return last(ferry.WrapStream(nil, 0)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.WrapStream(x.g, cu.StreamPerThread)) }, part: "in each thread"},
			{call: func() error { return last(ferry.WrapStream(x.g, 12345)) }, is: cu.ErrorInvalidHandle},
		},
		"WrapEvent": {
			{call: func() error { return last(ferry.WrapEvent(nil, 0)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.WrapEvent(x.g, 0)) }, is: cu.ErrorInvalidHandle},
			{call: func() error { return last(ferry.WrapEvent(x.g, 12345)) }, is: cu.ErrorInvalidHandle},
		},
		"View": {
			{call: func() error { return ferry.View[byte](noMemory).Wait(ctx) }, part: "no buffer (nil)"},
			{call: func() error { return ferry.View[byte](noDevice).Wait(ctx) }, part: "no buffer (nil)"},
			{call: func() error { return ferry.View[bool](x.device).Wait(ctx) }, part: "bool"},
			{call: func() error { return ferry.View[[7]byte](x.device).Wait(ctx) }, part: "no multiple of 7"},
			{call: func() error { return ferry.View[byte](x.device).Range(math.MinInt, math.MaxInt).Wait(ctx) }, part: "range ["},
		},
		"WriteValue": {
			{call: func() error { return ferry.WriteValue[uint32](nil, x.words, 1) }, part: "no stream given"},
			{call: func() error { return ferry.WriteValue[uint32](x.stream, nil, 1) }, part: "no buffer given"},
			{call: func() error { return ferry.WriteValue(x.stream, ferry.Pageable(make([]uint64, 1)), 1) }, part: "ordinary Go memory"},
			{call: func() error { return ferry.WriteValue(x.stream, x.words.Range(1, 1), 1) }, part: "has no elements"},
		},
		"WaitValue": {
			{call: func() error { return ferry.WaitValue[uint32](nil, x.words, cu.StreamWaitValueEQ, 1) }, part: "no stream given"},
			{call: func() error { return ferry.WaitValue[uint32](x.stream, nil, cu.StreamWaitValueEQ, 1) }, part: "no buffer given"},
			{call: func() error { return ferry.WaitValue(x.stream, ferry.Pageable(make([]uint64, 1)), 0, 1) }, part: "ordinary Go memory"},
			{call: func() error { return ferry.WaitValue(x.stream, x.words, 4, 1) }, is: cu.ErrorInvalidValue},
			{call: func() error { return ferry.WaitValue(x.stream, x.words.Range(1, 1), 0, 1) }, part: "has no elements"},
		},
		"AllocAsync": {
			{call: func() error { return last(ferry.AllocAsync[byte](nil, 1, nil)) }, part: "no stream given"},
			{call: func() error { return last(ferry.AllocAsync[byte](x.stream, 1, new(ferry.MemPool))) }, part: "no memory pool given"},
			{call: func() error { return last(ferry.AllocAsync[int](x.stream, math.MaxInt, nil)) }, is: cu.ErrorOutOfMemory},
		},
		"AllocVirtual": {
			{call: func() error { return last(ferry.AllocVirtual[byte](nil, 1, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.AllocVirtual[int](x.g, math.MaxInt, nil)) }, is: cu.ErrorOutOfMemory},
			{call: func() error {
				return last(ferry.AllocVirtual[int](x.g, 1, &ferry.VirtualOptions{Max: math.MaxInt}))
			}, is: cu.ErrorOutOfMemory},
			{call: func() error {
				return last(ferry.AllocVirtual[int](x.g, math.MinInt, &ferry.VirtualOptions{Max: math.MaxInt}))
			}, part: "negative"},
		},
		"Share": {
			{call: func() error { return last(ferry.Share(noDevice)) }, part: "no buffer given"},
			{call: func() error { return last(ferry.Share(new(ferry.Device[byte]))) }, part: "AllocVirtual with Share"},
			{call: func() error { return last(ferry.Share(x.device)) }, part: "AllocVirtual with Share"},
		},
		"Import": {
			{call: func() error { return last(ferry.Import[byte](x.g, nil, 1)) }, part: "no descriptor given"},
			{call: func() error { return last(ferry.Import[byte](x.g, new(os.File), 1)) }, part: "no descriptor given"},
		},
		"AllocPitched": {
			{call: func() error { return last3(ferry.AllocPitched[byte](nil, 1, 1)) }, part: "no GPU given"},
			{call: func() error { return last3(ferry.AllocPitched[struct{}](x.g, math.MaxInt, math.MaxInt)) }},
			{call: func() error { return last3(ferry.AllocPitched[[3]byte](x.g, math.MaxInt/3, 2)) }, is: cu.ErrorOutOfMemory},
		},
		"AllocHost": {
			{call: func() error { return last(ferry.AllocHost[byte](x.g, math.MaxInt, nil)) }, is: cu.ErrorOutOfMemory},
			{call: func() error { return last(ferry.AllocHost[int](x.g, math.MaxInt, nil)) }, is: cu.ErrorOutOfMemory},
			{call: func() error { return last(ferry.AllocHost[byte](x.g, 1<<20, &ferry.HostOptions{NUMANode: new(-7)})) }},
			{call: func() error { return last(fromPool[byte](new(ferry.PinnedPool), 1)) }, part: "no pool given"},
			{call: func() error { return last(fromPool[byte](x.empty, 1)) }, is: ferry.ErrClosed},
			{call: func() error { return last(fromPool[byte](x.empty, 0)) }, is: ferry.ErrClosed},
			{call: func() error { return last(fromPool[byte](x.pinned, math.MaxInt)) }, part: "a block cannot have"},
		},
		"AllocHostContext": {{call: func() error { return last(ferry.AllocHostContext[byte](ctx, nil, 1, nil)) }, part: "no GPU given"}},
		"Register": {
			{call: func() error { return last(ferry.Register(nil, x.want, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.Register(new(ferry.GPU), x.want, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.Register(x.g, x.host.Slice(), nil)) }, part: "needs no registration"},
		},
		"AllocManaged": {
			{call: func() error { return last(ferry.AllocManaged[byte](nil, 1, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.AllocManaged[byte](x.g, math.MaxInt, nil)) }, is: cu.ErrorOutOfMemory},
			{call: func() error { return last(ferry.AllocManaged[byte](x.g, 1, &ferry.ManagedOptions{Attach: 77})) }, part: "0x4d"},
		},
		"Upload": {
			{call: func() error { return last(ferry.Upload(nil, x.want)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.Upload(x.g, []string{""})) }, part: "Go pointers"},
		},
		"Alloc": {
			{call: func() error { return last(ferry.Alloc[byte](nil, 1)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.Alloc[int](x.g, math.MaxInt)) }, is: cu.ErrorOutOfMemory},
		},
		"Global": {
			{call: func() error { return last(ferry.Global[byte](nil, "x")) }, part: "no module given"},
			{call: func() error { return last(ferry.Global[byte](x.module, "")) }, is: cu.ErrorNotFound},
			{call: func() error { return last(ferry.Global[*int](x.module, "x")) }, part: "Go pointers"},
		},
		"ManagedGlobal": {{call: func() error { return last(ferry.ManagedGlobal[byte](nil, "x")) }, part: "no module given"}},
		"NewEvent":      {{call: func() error { return last(ferry.NewEvent(nil, nil)) }, part: "no GPU given"}},
		"NewStream":     {{call: func() error { return last(ferry.NewStream(noGPU, &ferry.StreamOptions{})) }, part: "no GPU given"}},
		"HostStats": {
			{call: func() error { return last(ferry.HostStats(nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.HostStats(new(ferry.GPU))) }, part: "no GPU given"},
		},
		"MemoryPlaces": {{call: func() error { return last(ferry.MemoryPlaces(nil)) }, part: "no GPU given"}},
		"NewPinnedPool": {
			{call: func() error { return last(ferry.NewPinnedPool(nil, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.NewPinnedPool(x.g, &ferry.PinnedPoolOptions{Max: math.MinInt})) }, part: "negative"},
		},
		"NewMemPool": {
			{call: func() error { return last(ferry.NewMemPool(nil, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.NewMemPool(x.g, &ferry.MemPoolOptions{Keep: math.MinInt})) }, part: "negative"},
		},
		"Load": {
			{call: func() error { return last(ferry.Load(nil, nil, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.Load(x.g, nil, nil)) }, is: cu.ErrorInvalidImage},
			{call: func() error { return last(ferry.Load(x.g, nil, &ferry.LoadOptions{Optimize: new(5)})) }, part: "Optimize is 5"},
			{call: func() error { return last(ferry.Load(x.g, nil, &ferry.LoadOptions{Optimize: new(-1)})) }, part: "must be 0 to 4"},
			{call: func() error { return last(ferry.Load(x.g, nil, &ferry.LoadOptions{MaxRegisters: math.MinInt})) }, part: "MaxRegisters"},
			{call: func() error { return last(ferry.Load(x.g, nil, &ferry.LoadOptions{InfoLogBytes: -1})) }, part: "log of -1 bytes"},
			{call: func() error { return last(ferry.Load(x.g, nil, &ferry.LoadOptions{ErrorLogBytes: 1 << 30})) }, part: "log of"},
		},
		"Link": {
			{call: func() error { return last(ferry.Link(nil, []ferry.LinkInput{{}}, nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.Link(x.g, nil, nil)) }, part: "no inputs given"},
			{call: func() error { return last(ferry.Link(x.g, []ferry.LinkInput{{Name: "empty"}}, nil)) }, is: cu.ErrorInvalidImage, part: "empty"},
			{call: func() error { return last(ferry.Link(x.g, nil, &ferry.LoadOptions{MaxRegisters: -1})) }, part: "MaxRegisters"},
		},
		"LoadFile": {
			{call: func() error { return last(ferry.LoadFile(nil, "", nil)) }, part: "no GPU given"},
			{call: func() error { return last(ferry.LoadFile(new(ferry.GPU), "internal/test/api/badinput_test.go", nil)) }, part: "no GPU given"},
		},
	}
	for _, n := range huge {
		refused["Alloc"] = append(refused["Alloc"], refusedCall{call: func() error { return last(ferry.Alloc[int](x.g, n)) }, part: "negative"})
		refused["AllocAsync"] = append(refused["AllocAsync"], refusedCall{call: func() error { return last(ferry.AllocAsync[int](x.stream, n, nil)) }, part: "negative"})
		refused["AllocHost"] = append(refused["AllocHost"],
			refusedCall{call: func() error { return last(ferry.AllocHost[int](x.g, n, nil)) }, part: "negative"},
			refusedCall{call: func() error { return last(fromPool[int](x.pinned, n)) }, part: "negative"})
		refused["AllocManaged"] = append(refused["AllocManaged"], refusedCall{call: func() error { return last(ferry.AllocManaged[int](x.g, n, nil)) }, part: "negative"})
		refused["AllocPitched"] = append(refused["AllocPitched"], refusedCall{call: func() error { return last3(ferry.AllocPitched[int](x.g, 0, n)) }, part: "negative"})
	}
	var functions []string
	for name := range declared(t) {
		if !strings.Contains(name, ".") {
			functions = append(functions, name)
		}
	}
	tables := map[string]bool{}
	for name := range maps.Keys(refused) {
		tables[name] = true
	}
	for name, f := range nothing {
		tables[name] = true
		if !f() {
			t.Errorf("%s returns something for bad input", name)
		}
	}
	wantAll(t, "functions", tables, functions)
	for name, calls := range refused {
		wantRefused(t, name, calls)
	}
	if batch.Len() != 0 {
		t.Errorf("the batch has %d operations after bad ones were refused", batch.Len())
	}
	x.wantUnchanged(t)
}

// candidates are values of a type for arguments: the zero value, a new one and, if the fixture
// has one, one that is good.
func (x *badInput) candidates(t reflect.Type) []reflect.Value {
	all := []reflect.Value{reflect.Zero(t)}
	if t.Kind() == reflect.Pointer {
		all = append(all, reflect.New(t.Elem()))
	}
	for _, good := range []any{x.g, x.stream, x.module, x.graph, x.pinned, x.pool, x.event, x.add, x.device, x.host, x.floats,
		x.other, x.far, context.Background(), func(*ferry.Stream) error { return nil }, func() {}, ferry.Cover(1, 1), cu.CPUDevice, "name", 1, -1, uint(1),
		new(ferry.Batch), new(ferry.Device[byte]), new(ferry.Host[byte]), new(ferry.Managed[byte]), new(ferry.PageableSlice[byte]), ferry.Rect[byte]{}} {
		if v := reflect.ValueOf(good); v.Type().AssignableTo(t) {
			all = append(all, v)
		}
	}
	return all
}

// TestZeroArguments: no method panics, whatever mixture of nil, new and good values its receiver
// and its arguments are. A call with a zero value returns an error if it can.
func TestZeroArguments(t *testing.T) {
	x := newBadInput(t)
	calls := 0
	for _, r := range receivers {
		for m := range reflect.TypeOf(r).Methods() {
			name := typeOf(r) + "." + m.Name
			if m.Name == "Close" || mayPanic(name) {
				continue
			}
			for _, v := range x.candidates(reflect.TypeOf(r)) {
				if v.IsNil() && name == "LaunchConfig.String" { // a method of values
					continue
				}
				f := v.MethodByName(m.Name)
				for args := range x.mixtures(f.Type()) {
					calls++
					if _, panicked := call(f, args); panicked != nil {
						t.Errorf("%s of %v with %v panics: %v", name, v, args, panicked)
					}
				}
			}
		}
	}
	if calls < 1000 {
		t.Errorf("%d calls: the test does not test what it should", calls)
	}
	_ = x.g.Wait(context.Background())
}

// mixtures yields lists of arguments. In each all but one are zero, or all but one are good.
func (x *badInput) mixtures(f reflect.Type) func(yield func([]reflect.Value) bool) {
	return func(yield func([]reflect.Value) bool) {
		choices := make([][]reflect.Value, f.NumIn())
		zero, good := make([]reflect.Value, f.NumIn()), make([]reflect.Value, f.NumIn())
		for i := range choices {
			choices[i] = x.candidates(f.In(i))
			zero[i], good[i] = choices[i][0], choices[i][len(choices[i])-1]
		}
		if !yield(zero) || !yield(good) {
			return
		}
		for i := range choices {
			for _, c := range choices[i] {
				for _, rest := range [][]reflect.Value{zero, good} {
					args := append([]reflect.Value(nil), rest...)
					args[i] = c
					if !yield(args) {
						return
					}
				}
			}
		}
	}
}
