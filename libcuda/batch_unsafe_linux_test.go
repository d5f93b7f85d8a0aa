//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
)

// every returns a batch with one call of each kind, and how many arguments each has
// in C.
func every(host cu.HostPtr, params []byte) (b *cu.Batch, args []int) {
	b = new(cu.Batch)
	grid, block := cu.Dim3{X: 1, Y: 2, Z: 3}, cu.Dim3{X: 4, Y: 5, Z: 6}
	b.MemcpyAsync(11, 12, 13, 14)
	b.MemcpyHtoDAsync(21, host, 23, 24)
	b.MemcpyDtoHAsync(host, 32, 33, 34)
	b.MemcpyDtoDAsync(41, 42, 43, 44)
	b.MemcpyPeerAsync(45, 46, 47, 48, 49, 50)
	b.MemsetD8Async(51, 0xfe, 53, 54)
	b.MemsetD16Async(61, 0xfedc, 63, 64)
	b.MemsetD32Async(71, 0xfedcba98, 73, 74)
	b.LaunchKernel(81, grid, block, 82, 83, params)
	b.LaunchKernel(91, block, grid, 92, 93, nil)
	b.EventRecord(101, 102)
	b.StreamWaitEvent(111, 112)
	return b, []int{4, 4, 4, 4, 6, 4, 4, 4, 10, 11, 2, 3}
}

// TestSubmit compares what arrives in C from a batch with what arrives from its calls
// made one by one. It compares the parameters of a launch by their bytes.
func TestSubmit(t *testing.T) {
	f, d := newFake(t)
	params := []byte("all the parameters of a kernel")
	b, args := every(cu.HostPtr(&params[0]), params)
	var launched [][]byte
	f.on("cuLaunchKernel", func(a []uintptr) cu.Result {
		if a[10] != 0 {
			p := at[launchParams](a[10])
			if p.bufferMark != launchBuffer || p.sizeMark != launchSize || p.endMark != launchEnd {
				t.Errorf("marks %d, %d, %d", p.bufferMark, p.sizeMark, p.endMark)
			}
			launched = append(launched, bytes.Clone(unsafe.Slice((*byte)(p.buffer), *p.size)))
		}
		return cu.Success
	})
	if done, err := b.Do(d, 7); done != b.Len() || err != nil {
		t.Fatalf("one by one: %d of %d done, %v", done, b.Len(), err)
	}
	alone := slices.DeleteFunc(f.take(), func(c fakeCall) bool { return c.symbol == "cuCtxSetCurrent" })
	if done, err := d.Submit(7, b); done != b.Len() || err != nil {
		t.Fatalf("together: %d of %d done, %v", done, b.Len(), err)
	}
	together := f.take()
	if together[0].symbol != "cuCtxSetCurrent" || together[0].args[0] != 7 {
		t.Errorf("first %+v, want the context", together[0])
	}
	for i, got := range together[1:] {
		if want := alone[i]; got.symbol != want.symbol || !slices.Equal(got.args[:args[i]], want.args[:args[i]]) {
			t.Errorf("call %d (%v): %s %v, want %s %v", i, b.Calls()[i].Op, got.symbol, got.args[:args[i]], want.symbol, want.args[:args[i]])
		}
		if want := b.Calls()[i].Op.String(); got.symbol != want {
			t.Errorf("call %d is %s, its name %s", i, got.symbol, want)
		}
	}
	if len(together) != b.Len()+1 || len(launched) != 2 || !bytes.Equal(launched[0], params) || !bytes.Equal(launched[1], params) {
		t.Errorf("%d calls, parameters %q", len(together), launched)
	}
}

func TestSubmitStopsAtAnError(t *testing.T) {
	f, d := newFake(t)
	b, _ := every(cu.HostPtr(&hotBytes[0]), nil)
	f.on("cuMemcpyDtoHAsync", func([]uintptr) cu.Result { return cu.ErrorInvalidValue })
	if done, err := d.Submit(7, b); done != 2 || err != cu.ErrorInvalidValue {
		t.Errorf("%d done, %v, want 2 and the driver's error", done, err)
	}
	if calls := f.take(); len(calls) != 1+3 {
		t.Errorf("%d calls in C, want the context and 3", len(calls))
	}
}

func TestSubmitRefuses(t *testing.T) {
	f, d := newFake(t)
	var empty cu.Batch
	if done, err := d.Submit(7, &empty); done != 0 || err != nil {
		t.Errorf("empty: %d, %v", done, err)
	}
	b, _ := every(nil, nil)
	if _, err := d.Submit(7, b); err != nil {
		t.Fatal(err)
	}
	f.take()
	if done, err := d.Submit(0, b); done != 0 || err != cu.ErrorInvalidContext {
		t.Errorf("without a context: %d, %v", done, err)
	}
	b.Calls()[3].Op = 99
	if done, err := d.Submit(7, b); done != 0 || !errors.Is(err, cu.ErrorInvalidValue) {
		t.Errorf("unknown call: %d, %v", done, err)
	}
	if calls := f.take(); len(calls) != 0 {
		t.Errorf("%d calls in C, want none", len(calls))
	}
	f, d = newFake(t)
	f.lacks["cuMemsetD16Async"] = true
	b, _ = every(nil, nil)
	if done, err := d.Submit(7, b); done != 0 || err == nil {
		t.Errorf("call that the driver lacks: %d, %v", done, err)
	}
	if calls := f.take(); len(calls) != 0 {
		t.Errorf("%d calls in C, want none", len(calls))
	}
}

// TestSubmitAgain submits a batch several times. Each time the calls are those that
// the batch has now, made by the driver that gets it.
func TestSubmitAgain(t *testing.T) {
	f, d := newFake(t)
	b := new(cu.Batch)
	submit := func(what string, ctx cu.Context, wantDone int, wantErr error, want ...uintptr) {
		t.Helper()
		if done, err := d.Submit(ctx, b); done != wantDone || err != wantErr {
			t.Errorf("%s: %d done, %v, want %d and %v", what, done, err, wantDone, wantErr)
		}
		var got []uintptr
		for _, c := range f.take() {
			got = append(got, c.args[0])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: first arguments %d, want %d", what, got, want)
		}
	}
	b.EventRecord(21, 1)
	b.EventRecord(22, 1)
	submit("first", 7, 2, nil, 7, 21, 22)
	submit("again", 8, 2, nil, 8, 21, 22)
	submit("without a context", 0, 0, cu.ErrorInvalidContext)
	b.EventRecord(23, 1)
	submit("one more", 7, 3, nil, 7, 21, 22, 23)
	b.Calls()[1].Event = 32
	submit("one changed", 7, 3, nil, 7, 21, 32, 23)
	f.on("cuEventRecord", func(a []uintptr) cu.Result { return cu.Result(a[0] / 32 * uintptr(cu.ErrorInvalidHandle)) })
	submit("one refused", 7, 1, cu.ErrorInvalidHandle, 7, 21, 32)
	b.Reset()
	b.StreamWaitEvent(5, 9)
	submit("others", 7, 1, nil, 7, 5)
	f, d = newFake(t)
	f.lacks["cuStreamWaitEvent"] = true
	if done, err := d.Submit(7, b); done != 0 || err == nil {
		t.Errorf("another driver: %d done, %v, want that it lacks the call", done, err)
	}
	f.lacks["cuStreamWaitEvent"] = false
	submit("another driver", 7, 1, nil, 7, 5)
	enterHostFunc()
	defer leaveHostFunc()
	if done, err := d.Submit(7, b); done != 0 || !errors.Is(err, cu.ErrorNotPermitted) {
		t.Errorf("in a host function: %d done, %v", done, err)
	}
	if calls := f.take(); len(calls) != 0 {
		t.Errorf("%d calls in C, want none", len(calls))
	}
}

func TestSubmitDoesNotAllocate(t *testing.T) {
	d := libcDriver(t, nil)
	var b cu.Batch
	step := func() {
		b.Reset()
		hotStep(&b)
		if done, err := d.Submit(1, &b); done != 3 || err != nil {
			t.Fatal(done, err)
		}
	}
	again := func() {
		if _, err := d.Submit(1, &b); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(200, func() { step(); again() }); n != 0 && !racebuild.Instrumented {
		t.Errorf("a step allocates %v times", n)
	}
}

// hotStep appends calls for which isalpha returns 0.
func hotStep(b *cu.Batch) {
	b.MemcpyHtoDAsync(2, cu.HostPtr(&hotBytes[0]), 64, 5)
	b.LaunchKernel(2, cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 1, Y: 1, Z: 1}, 0, 3, hotBytes[:24])
	b.EventRecord(2, 3)
}

// BenchmarkSubmit measures the way to C and back for several calls.
func BenchmarkSubmit(b *testing.B) {
	d := libcDriver(b, nil)
	var batch cu.Batch
	hotStep(&batch)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Submit(1, &batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch.Len()), "ns/call")
}

// TestSubmitByHandle checks that a driver which takes the context from the stream gets
// no context, unless it refuses a call. Then it gets the context and the calls that
// are left.
func TestSubmitByHandle(t *testing.T) {
	const set, refused = "cuCtxSetCurrent", "cuMemcpyDtoHAsync" // the third call
	f, d := newFake(t)
	d.version = minByHandle
	full, _ := every(cu.HostPtr(&hotBytes[0]), []byte("parameters"))
	named, legacy := new(cu.Batch), new(cu.Batch)
	for _, c := range full.Calls() {
		if c.Op != cu.OpMemcpyPeerAsync {
			named.Append(c)
		}
	}
	legacy.Append(named.Calls()...)
	legacy.Calls()[4].Stream = cu.StreamPerThread
	bound := false
	f.on(set, func([]uintptr) cu.Result { bound = true; return cu.Success })
	symbols := func(b *cu.Batch) (s []string) {
		for _, c := range b.Calls() {
			s = append(s, c.Op.String())
		}
		return s
	}
	all := symbols(named)
	for _, c := range []struct {
		what  string
		batch *cu.Batch
		ctx   cu.Context
		want  []string
		done  int
		err   error
		c     func() cu.Result // the result of the call that may be refused
	}{
		{"all by their streams", named, 7, all, len(all), nil, nil},
		{"a copy between devices", full, 7, slices.Concat([]string{set}, symbols(full)), full.Len(), nil, nil},
		{"a stream of any context", legacy, 7, slices.Concat([]string{set}, all), len(all), nil, nil},
		{"no context", named, 0, nil, 0, cu.ErrorInvalidContext, nil},
		{"one call wants the context", named, 7, slices.Concat(all[:3], []string{set}, all[2:]), len(all), nil, func() cu.Result {
			if bound {
				return cu.Success
			}
			return cu.ErrorContextIsDestroyed
		}},
		{"wrong with a context, too", named, 7, slices.Concat(all[:3], []string{set, refused}), 2, cu.ErrorInvalidValue, func() cu.Result { return cu.ErrorInvalidValue }},
		{"wrong in another way", named, 7, all[:3], 2, cu.ErrorOutOfMemory, func() cu.Result { return cu.ErrorOutOfMemory }},
		{"all well again", named, 7, all, len(all), nil, nil},
	} {
		f.on(refused, func([]uintptr) cu.Result {
			if c.c == nil {
				return cu.Success
			}
			return c.c()
		})
		for range 2 {
			bound = false
			done, err := d.Submit(c.ctx, c.batch)
			var got []string
			for _, call := range f.take() {
				got = append(got, call.symbol)
				if call.symbol == set && call.args[0] != 7 {
					t.Errorf("%s: context %d, want 7", c.what, call.args[0])
				}
			}
			if done != c.done || err != c.err || !slices.Equal(got, c.want) {
				t.Errorf("%s: %d done, %v, want %d and %v; C got\n%v, want\n%v", c.what, done, err, c.done, c.err, got, c.want)
			}
		}
	}
	d.contexts.mark(7, true)
	if done, err := d.Submit(7, named); done != 0 || err != cu.ErrorInvalidContext || len(f.take()) != 0 {
		t.Errorf("a destroyed context: %d done, %v", done, err)
	}
	d.contexts.mark(7, false)
	enterHostFunc()
	defer leaveHostFunc()
	if done, err := d.Submit(7, named); done != 0 || !errors.Is(err, cu.ErrorNotPermitted) || len(f.take()) != 0 {
		t.Errorf("in a host function: %d done, %v", done, err)
	}
}
