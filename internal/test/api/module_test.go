package api

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestModule: a module lists its kernels. The error for a kernel that does not exist lists
// them, too, and the error for bad PTX has the file and the line.
func TestModule(t *testing.T) {
	g := openTest(t)
	m, k := load(t, g, "fill")
	if got := m.Kernels(); !slices.Contains(got, "vector_add") || !slices.Contains(got, "copy") {
		t.Errorf("the kernels are %q", got)
	}
	if k.Name() != "fill" || len(k.Params()) != 3 {
		t.Errorf("%s has %d parameters", k.Name(), len(k.Params()))
	}
	_, err := m.Kernel("vector_sub")
	wantError(t, err, cu.ErrorNotFound, `"vector_sub"`, "vector_add", "increment", "copy", "fill")
	closeAll(t, m, m)
	_, err = m.Kernel("fill")
	wantError(t, err, ferry.ErrClosed, "fill")
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	wantError(t, s.Launch(k, ferry.Cover(1, 1), cu.DevicePtr(0), uint32(0), uint64(0)), ferry.ErrClosed, "launch fill")
	wantError(t, s.Launch(nil, ferry.Cover(1, 1)), cu.ErrorInvalidValue, "nil")

	bad := filepath.Join(t.TempDir(), "bad.ptx")
	check(t, os.WriteFile(bad, []byte(strings.Replace(paramsPTX, "ret;", "ret\n\tfrobnicate;", 1)), 0o600))
	_, err = ferry.LoadFile(g, bad, nil)
	if err == nil {
		t.Fatal("PTX with a syntax error was loaded")
	}
	wantError(t, err, err, bad+":", "frobnicate", "^")
	_, err = ferry.LoadFile(g, bad+".none", nil)
	wantError(t, err, os.ErrNotExist, "bad.ptx.none")
	for _, image := range [][]byte{nil, {}, []byte("hello"), {0, 1, 2}} {
		if _, err := ferry.Load(g, image, nil); err == nil {
			t.Errorf("the image %q was loaded", image)
		}
	}
}

// TestModuleCloseWaits: Close waits for kernels of the module.
func TestModuleCloseWaits(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	m, k := load(t, g, "increment")
	v := must(ferry.Alloc[float32](g, 10))(t)
	check(t, ferry.Fill(s, v, 1))
	open := gate(t, s)
	check(t, s.Launch(k, ferry.Cover(10, 32), v, uint64(10)))
	waits(t, "Module.Close", open, func() { closeAll(t, m) })
	got := make([]float32, 10)
	check(t, ferry.Copy(s, ferry.Pageable(got), v))
	if got[9] != 2 {
		t.Errorf("got %v, want 2", got[9])
	}
	closeAll(t, v, s)
}

// variablesPTX has a kernel that adds a constant, multiplied by an argument, to a variable
// and to a buffer.
const variablesPTX = `.version 6.3
.target sm_52
.address_size 64
.visible .global .align 4 .u32 counter[4] = {10, 20, 30, 40};
.visible .const .align 4 .u32 step = 3;
.visible .global .align 1 .b8 odd[7];
.visible .entry advance(.param .u64 out, .param .u32 times)
{
	.reg .b64 %rd<2>; .reg .b32 %r<6>;
	ld.param.u64 %rd0, [out];
	cvta.to.global.u64 %rd1, %rd0;
	ld.param.u32 %r0, [times];
	ld.const.u32 %r1, [step];
	mul.lo.u32 %r2, %r0, %r1;
	ld.global.u32 %r3, [counter+4];
	add.u32 %r3, %r3, %r2;
	st.global.u32 [counter+4], %r3;
	ld.global.u32 %r4, [%rd1];
	add.u32 %r4, %r4, %r2;
	st.global.u32 [%rd1], %r4;
	ret;
}
`

// managedPTX has a kernel that increments a managed variable and adds it to a buffer.
const managedPTX = `.version 6.3
.target sm_52
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 shared[2] = {7, 8};
.visible .entry both(.param .u64 out)
{
	.reg .b64 %rd<2>; .reg .b32 %r<3>;
	ld.param.u64 %rd0, [out];
	cvta.to.global.u64 %rd1, %rd0;
	ld.global.u32 %r0, [shared+4];
	add.u32 %r0, %r0, 1;
	st.global.u32 [shared+4], %r0;
	ld.global.u32 %r1, [%rd1];
	add.u32 %r1, %r1, %r0;
	st.global.u32 [%rd1], %r1;
	ret;
}
`

// TestGlobal reads and writes variables of a module, before and after a kernel that uses
// them.
func TestGlobal(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(variablesPTX), nil))(t)
	k := must(m.Kernel("advance"))(t)
	counter, step := must(ferry.Global[uint32](m, "counter"))(t), must(ferry.Global[uint32](m, "step"))(t)
	if counter.Len() != 4 || step.Len() != 1 || counter.Pointer() == 0 {
		t.Errorf("counter has %d elements at %#x and step %d, want 4 and 1", counter.Len(), counter.Pointer(), step.Len())
	}
	pairs := must(ferry.Global[[2]uint32](m, "counter"))(t)
	if pairs.Len() != 2 || pairs.Pointer() != counter.Pointer() {
		t.Errorf("counter as pairs has %d elements at %#x, want 2 at %#x", pairs.Len(), pairs.Pointer(), counter.Pointer())
	}
	out := must(ferry.Alloc[uint32](g, 1))(t)
	check(t, ferry.Fill(s, out, 100))
	check(t, s.Launch(k, ferry.Cover(1, 1), out, uint32(5)))
	check(t, ferry.Copy(s, step, ferry.Pageable([]uint32{1000})))
	check(t, s.Launch(k, ferry.Cover(1, 1), counter, uint32(2))) // the variable as a buffer
	got := make([]uint32, 4)
	check(t, ferry.Copy(s, ferry.Pageable(got), counter))
	if want := [4]uint32{2010, 2035, 30, 40}; [4]uint32(got) != want {
		t.Errorf("counter is %v, want %v", got, want)
	}
	check(t, ferry.Fill(s, counter.Range(2, 4), 9))
	check(t, ferry.Copy(s, ferry.Pageable(got), counter))
	check(t, ferry.Copy(s, ferry.Pageable(got[:1]), out))
	if want := [4]uint32{115, 2035, 9, 9}; [4]uint32(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}

	_, err := ferry.Global[uint32](m, "count")
	wantError(t, err, cu.ErrorNotFound, `find variable "count"`, "there are: counter, odd, step")
	_, err = ferry.Global[uint32](m, "odd")
	wantError(t, err, cu.ErrorInvalidValue, "7 bytes", "uint32, 4 bytes each")
	_, err = ferry.Global[struct{}](m, "odd")
	wantError(t, err, cu.ErrorInvalidValue, "not a multiple")
	_, err = ferry.Global[*int](m, "odd")
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")
	_, err = ferry.ManagedGlobal[uint32](m, "counter")
	wantError(t, err, cu.ErrorInvalidValue, "device variable counter", "not managed", "Global")
	_, err = ferry.Global[uint32](nil, "counter")
	wantError(t, err, cu.ErrorInvalidValue, "no module")

	check(t, counter.Close()) // does nothing, because the module owns the variable
	open := gate(t, s)
	check(t, ferry.Copy(s, out, counter.Range(0, 1)))
	waits(t, "Module.Close", open, func() { closeAll(t, m) })
	wantError(t, ferry.Copy(s, counter, counter), ferry.ErrClosed, "variable counter (16 bytes)")
	_, err = ferry.Global[uint32](m, "counter")
	wantError(t, err, ferry.ErrClosed, "find variable")
	check(t, ferry.Copy(s, ferry.Pageable(got[:1]), out))
	if got[0] != 2010 {
		t.Errorf("got %d, want 2010", got[0])
	}
	closeAll(t, out, s)
}

// TestManagedGlobal: the host can use a managed variable. Slice waits for kernels of the
// module, although they were not given the variable.
func TestManagedGlobal(t *testing.T) {
	g := openTest(t)
	if n, err := g.Attribute(cu.DeviceAttributeManagedMemory); err != nil || n == 0 {
		t.Skip("the device has no managed memory")
	}
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(managedPTX), nil))(t)
	k := must(m.Kernel("both"))(t)
	shared := must(ferry.ManagedGlobal[uint32](m, "shared"))(t)
	if got := shared.Slice(); len(got) != 2 || got[0] != 7 || got[1] != 8 {
		t.Errorf("shared is %v, want [7 8]", got)
	}
	shared.Slice()[1] = 50
	out := must(ferry.Alloc[uint32](g, 1))(t) // device memory in the same launch
	check(t, ferry.Fill(s, out, 0))
	check(t, s.Wait(context.Background()))
	open := gate(t, s)
	check(t, s.Launch(k, ferry.Cover(1, 1), out))
	waits(t, "Slice", open, func() {
		if got := shared.Slice()[1]; got != 51 {
			t.Errorf("got %d, want 51", got)
		}
	})
	device := must(ferry.Global[uint32](m, "shared"))(t)
	check(t, ferry.Copy(s, out, device.Range(0, 1)))
	check(t, ferry.Copy(s, shared.Range(1, 2), out))
	if got := shared.Slice(); got[1] != 7 {
		t.Errorf("got %v, want [7 7]", got)
	}
	closeAll(t, m)
	wantError(t, sliceError(shared.Slice), ferry.ErrClosed, "variable shared")
	closeAll(t, out, s, loadAgain(t, g))
}

// loadAgain loads the module again. Its variables have their first values.
func loadAgain(t *testing.T, g *ferry.GPU) *ferry.Module {
	m := must(ferry.Load(g, []byte(managedPTX), nil))(t)
	if got := must(ferry.ManagedGlobal[uint32](m, "shared"))(t).Slice(); got[0] != 7 || got[1] != 8 {
		t.Errorf("shared is %v, want [7 8]", got)
	}
	return m
}

// TestGlobalInHostFunc: a module that a host function closes is unloaded afterwards, with its
// variables.
func TestGlobalInHostFunc(t *testing.T) {
	d := newHookDriver(openTest(t).Driver())
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(variablesPTX), nil))(t)
	counter := must(ferry.Global[uint32](m, "counter"))(t)
	var closeErr error
	check(t, ferry.Fill(s, counter, 1))
	check(t, s.HostFunc(func() { closeErr = m.Close() }))
	check(t, s.Wait(context.Background()))
	check(t, closeErr)
	wantError(t, ferry.Fill(s, counter, 1), ferry.ErrClosed)
	eventually(t, "unloaded", func() bool { return d.count("ModuleUnload") == 1 })
	closeAll(t, s)
}

// TestGlobalInGraph: a graph keeps a module whose variable it copies. Overlapping
// registrations and rectangles are captured like other memory.
func TestGlobalInGraph(t *testing.T) {
	g := openRegister(t)
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	m := must(ferry.Load(g, []byte(variablesPTX), nil))(t)
	counter := must(ferry.Global[uint32](m, "counter"))(t)
	memory := make([]uint32, 4)
	low, all := must(ferry.Register(g, memory[1:2], nil))(t), must(ferry.Register(g, memory, nil))(t)
	rects := must(ferry.AllocHost[uint32](g, 4, nil))(t)
	graph := must(s.Capture(func(s *ferry.Stream) error {
		return errors.Join(
			ferry.Copy(s, all, counter),
			ferry.CopyRect(s, ferry.Rect[uint32]{Memory: rects, Width: 1, Height: 2, Pitch: 2}, ferry.Rect[uint32]{Memory: counter, Width: 1, Height: 2, Pitch: 3}),
		)
	}))(t)
	clear(rects.Slice())
	rects.Slice()[1] = 77
	closeAll(t, m)
	wantError(t, ferry.Copy(s, all, counter), ferry.ErrClosed, "variable counter")
	check(t, graph.Launch(s))
	if low.Slice()[0] != 20 || [4]uint32(all.Slice()) != [4]uint32{10, 20, 30, 40} {
		t.Errorf("got %v", memory)
	}
	if got := rects.Slice(); [4]uint32(got) != [4]uint32{10, 77, 40, 0} {
		t.Errorf("got %v, want [10 77 40 0]", got)
	}
	_, err := s.Capture(func(s *ferry.Stream) error {
		return ferry.CopyRect(s, ferry.Rect[uint32]{Memory: rects, Width: 1, Height: 2, Pitch: 2}, ferry.Rect[uint32]{Memory: ferry.Pageable(make([]uint32, 4)), Width: 1, Height: 2})
	})
	wantError(t, err, cu.ErrorInvalidValue, "pageable")
	closeAll(t, low, all, graph, rects, s)
}
