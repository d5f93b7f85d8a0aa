//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// TestCrossing checks the calls of several functions that arrive in C, and the result.
func TestCrossing(t *testing.T) {
	f, _ := newFake(t)
	for _, setResult := range []cu.Result{cu.Success, cu.ErrorInvalidContext} {
		for n := 1; n <= 5; n++ {
			for bad := 0; bad <= n; bad++ { // index of the step that fails; n for none
				f.on("set", func([]uintptr) cu.Result { return setResult })
				f.on("good", func([]uintptr) cu.Result { return cu.Success })
				f.on("bad", func([]uintptr) cu.Result { return cu.ErrorNotReady })
				c, steps := newCrossing(n, bad)
				checkCrossing(t, c.make(), c, steps, f.take(), setResult, bad)
				if setResult == cu.Success {
					c, steps = newCrossing(n, bad)
					c.set = 0
					calls := append([]fakeCall{{"set", []uintptr{c.ctx}}}, f.take()...)
					checkCrossing(t, c.make(), c, steps, append(calls, f.take()...), setResult, bad)
				}
			}
		}
	}
}

// newCrossing makes n steps with arguments that all differ.
func newCrossing(n, bad int) (*crossing, []step) {
	steps := make([]step, n)
	for i := range steps {
		steps[i][0] = fakeProc("good")
		if i == bad {
			steps[i][0] = fakeProc("bad")
		}
		for j := range maxArgs {
			steps[i][1+j] = uintptr(0x1122334400000000*uint64(i%2) + uint64(0x100*(i+1)+j))
		}
	}
	return &crossing{binding: binding{fakeProc("set"), 0xc0ffee}, steps: &steps[0], n: uintptr(n)}, steps
}

func checkCrossing(t *testing.T, result cu.Result, c *crossing, steps []step, calls []fakeCall, setResult cu.Result, bad int) {
	t.Helper()
	if calls[0].symbol != "set" || calls[0].args[0] != 0xc0ffee {
		t.Errorf("first call %+v, want set with the context", calls[0])
	}
	want := []any{cu.Result(cu.Success), len(steps), len(steps)}
	switch {
	case setResult != cu.Success:
		want = []any{setResult, 0, 0}
	case bad < len(steps):
		want = []any{cu.ErrorNotReady, bad + 1, bad}
	}
	if got := []any{result, len(calls) - 1, int(c.done)}; !slices.Equal(got, want) {
		t.Fatalf("%d steps, step %d fails: result, calls, done are %v, want %v", len(steps), bad, got, want)
	}
	for i, call := range calls[1:] {
		if !slices.Equal(call.args, steps[i][1:]) {
			t.Errorf("arguments %#x, want %#x", call.args, steps[i][1:])
		}
	}
}

// TestStackMovesInCall makes calls from a goroutine's stack. The C functions are Go
// code that moves the stack, and other goroutines then write to where it was.
func TestStackMovesInCall(t *testing.T) {
	f, d := newFake(t)
	moved := 0
	move := func([]uintptr) cu.Result {
		moved += deep(200)
		for range 100 {
			done := make(chan int)
			go func() { done <- deep(2) }()
			<-done
		}
		return cu.Success
	}
	f.on("cuCtxSetCurrent", move)
	f.on("cuMemcpyPeerAsync", move)
	params := []byte("all the parameters of a kernel")
	f.on("cuLaunchKernel", func(a []uintptr) cu.Result {
		move(nil)
		p := at[launchParams](a[10])
		if got := unsafe.Slice((*byte)(p.buffer), *p.size); !bytes.Equal(got, params) || p.bufferMark != launchBuffer || p.sizeMark != launchSize || p.endMark != launchEnd {
			t.Errorf("parameters %q of %+v", got, p)
		}
		return cu.ErrorNotReady
	})
	for range 20 {
		done := make(chan bool)
		go func() { // with a small stack
			defer close(done)
			if err := d.MemcpyPeerAsync(7, 1, 2, 3, 4, 5, 6); err != nil {
				t.Error(err)
			}
			if err := d.LaunchKernel(7, 1, cu.Dim3{X: 2, Y: 3, Z: 4}, cu.Dim3{X: 5, Y: 6, Z: 7}, 8, 9, params); err != cu.ErrorNotReady {
				t.Errorf("%v, want the driver's error", err)
			}
		}()
		<-done
		calls := f.take()
		if len(calls) != 4 || !slices.Equal(calls[1].args[:6], []uintptr{1, 2, 3, 4, 5, 6}) || !slices.Equal(calls[3].args[:10], []uintptr{1, 2, 3, 4, 5, 6, 7, 8, 9, 0}) {
			t.Fatalf("arrived: %+v", calls)
		}
	}
}

// deep uses n KiB of stack.
func deep(n int) int {
	var pad [1024]byte
	for i := range pad {
		pad[i] = 0xee
	}
	if n == 0 {
		return int(pad[0])
	}
	return deep(n-1) + int(pad[n%len(pad)])
}
