package ferry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// variablesPTX adds a constant, times what it is called with, to all variables and
// to a buffer.
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

// managedPTX adds one to a managed variable and to a buffer.
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

// TestGlobal reads and writes variables of a module around a kernel that uses
// them, too.
func TestGlobal(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(variablesPTX)))(t)
	k := must(m.Kernel("advance"))(t)
	counter, step := must(ferry.Global[uint32](m, "counter"))(t), must(ferry.Global[uint32](m, "step"))(t)
	if counter.Len() != 4 || step.Len() != 1 || counter.Pointer() == 0 {
		t.Errorf("%d and %d elements", counter.Len(), step.Len())
	}
	pairs := must(ferry.Global[[2]uint32](m, "counter"))(t)
	if pairs.Len() != 2 || pairs.Pointer() != counter.Pointer() {
		t.Errorf("as pairs: %d elements at %#x", pairs.Len(), pairs.Pointer())
	}
	out := must(ferry.Alloc[uint32](g, 1))(t)
	check(t, ferry.Fill(s, out, 100))
	check(t, s.Launch(k, ferry.Grid(1, 1), out, uint32(5)))
	check(t, ferry.Copy(s, step, ferry.Pageable([]uint32{1000})))
	check(t, s.Launch(k, ferry.Grid(1, 1), counter, uint32(2))) // the variable as a buffer
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
	wantError(t, err, cu.ErrorInvalidValue, "no number of elements")
	_, err = ferry.Global[*int](m, "odd")
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")
	_, err = ferry.ManagedGlobal[uint32](m, "counter")
	wantError(t, err, cu.ErrorInvalidValue, "device variable counter", "not managed", "Global")
	_, err = ferry.Global[uint32](nil, "counter")
	wantError(t, err, cu.ErrorInvalidValue, "no module")

	check(t, counter.Close()) // nothing: it is the module's
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

// TestManagedGlobal: a managed variable is memory of the host, too, and waits for
// kernels that use it unasked.
func TestManagedGlobal(t *testing.T) {
	g := openTest(t)
	if n, err := g.Attribute(cu.DeviceAttributeManagedMemory); err != nil || n == 0 {
		t.Skip("the device has no managed memory")
	}
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(managedPTX)))(t)
	k := must(m.Kernel("both"))(t)
	shared := must(ferry.ManagedGlobal[uint32](m, "shared"))(t)
	if got := shared.Slice(); len(got) != 2 || got[0] != 7 || got[1] != 8 {
		t.Errorf("shared is %v, want [7 8]", got)
	}
	shared.Slice()[1] = 50
	out := must(ferry.Alloc[uint32](g, 1))(t) // ordinary memory beside managed
	check(t, ferry.Fill(s, out, 0))
	check(t, s.Wait(context.Background()))
	open := gate(t, s)
	check(t, s.Launch(k, ferry.Grid(1, 1), out))
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
	closeAll(t, out, s, k2(t, g))
}

// k2 loads and uses the module again: nothing of the first is left.
func k2(t *testing.T, g *ferry.GPU) *ferry.Module {
	m := must(ferry.Load(g, []byte(managedPTX)))(t)
	if got := must(ferry.ManagedGlobal[uint32](m, "shared"))(t).Slice(); got[0] != 7 || got[1] != 8 {
		t.Errorf("shared is %v, want [7 8]", got)
	}
	return m
}

// TestGlobalInHostFunc: a module closed in a host function is unloaded afterwards,
// with its variables.
func TestGlobalInHostFunc(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(variablesPTX)))(t)
	counter := must(ferry.Global[uint32](m, "counter"))(t)
	var closeErr error
	check(t, ferry.Fill(s, counter, 1))
	check(t, s.HostFunc(func() { closeErr = m.Close() }))
	check(t, s.Wait(context.Background()))
	check(t, closeErr)
	wantError(t, ferry.Fill(s, counter, 1), ferry.ErrClosed)
	closeAll(t, s)
}

// TestAdvice reads back what was advised.
func TestAdvice(t *testing.T) {
	g := openTest(t)
	m, err := ferry.AllocManaged[byte](g, 4<<20, nil)
	if errors.Is(err, cu.ErrorNotSupported) {
		t.Skip(err)
	}
	check(t, err)
	if n, err := g.Attribute(cu.DeviceAttributeConcurrentManagedAccess); err != nil || n == 0 {
		t.Skip("the device has no concurrent managed access")
	}
	s := must(ferry.NewStream(g, nil))(t)
	me := g.Device()
	got := must(m.Advice())(t)
	if got.ReadMostly || got.PreferredLocation != cu.InvalidDevice || got.LastPrefetch != cu.InvalidDevice || got.AccessedBy != nil {
		t.Errorf("before any advice: %+v", got)
	}
	check(t, m.Advise(cu.MemAdviseSetReadMostly, 0))
	check(t, m.Advise(cu.MemAdviseSetPreferredLocation, cu.CPUDevice))
	check(t, m.Advise(cu.MemAdviseSetAccessedBy, me))
	check(t, m.Prefetch(s, g.Device()))
	check(t, m.Wait(context.Background()))
	got = must(m.Range(100, 2<<20).Advice())(t)
	if !got.ReadMostly || got.PreferredLocation != cu.CPUDevice || got.LastPrefetch != me || len(got.AccessedBy) != 1 || got.AccessedBy[0] != me {
		t.Errorf("after advice: %+v", got)
	}
	check(t, m.Range(0, 2<<20).Advise(cu.MemAdviseUnsetReadMostly, 0))
	check(t, m.Advise(cu.MemAdviseUnsetAccessedBy, me))
	check(t, m.Advise(cu.MemAdviseUnsetPreferredLocation, 0))
	got = must(m.Advice())(t)
	if got.ReadMostly || got.PreferredLocation != cu.InvalidDevice || got.AccessedBy != nil {
		t.Errorf("after taking it back: %+v", got)
	}
	wantError(t, m.Advise(cu.MemAdviseSetAccessedBy, 99), cu.ErrorInvalidDevice, "advise on managed buffer", "device 99")
	closeAll(t, m)
	_, err = m.Advice()
	wantError(t, err, ferry.ErrClosed, "read advice")
	_, err = (&ferry.Managed[int]{}).Advice()
	check(t, err)
	wantError(t, (&ferry.Managed[int]{}).Attach(s, cu.MemAttachHost), cu.ErrorInvalidValue, "attach")
	closeAll(t, s)
}

// TestAdviseRefused: advice that a device cannot follow names the attribute.
func TestAdviseRefused(t *testing.T) {
	d := &turnsDriver{fakeDriver: newFake()}
	d.attributes[cu.DeviceAttributeManagedMemory] = 1
	m := must(ferry.AllocManaged[byte](openFake(t, d), 64, nil))(t)
	wantError(t, m.Advise(cu.MemAdviseSetPreferredLocation, 0), cu.ErrorInvalidDevice, "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0")
	closeAll(t, m)
	_, err := ferry.AllocManaged[byte](openFake(t, d), 64, &ferry.ManagedOptions{Attach: cu.MemAttachSingle})
	wantError(t, err, cu.ErrorInvalidValue, "Attach is 0x4", "Managed.Attach")
}

// TestGlobalInGraph: a graph keeps a module whose variable it copies; overlapping
// registrations and boxes are captured like any memory.
func TestGlobalInGraph(t *testing.T) {
	g := openRegister(t)
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	m := must(ferry.Load(g, []byte(variablesPTX)))(t)
	counter := must(ferry.Global[uint32](m, "counter"))(t)
	memory := make([]uint32, 4)
	low, all := must(ferry.Register(g, memory[1:2], nil))(t), must(ferry.Register(g, memory, nil))(t)
	boxes := must(ferry.AllocHost[uint32](g, 4, nil))(t)
	graph := must(s.Capture(func(s *ferry.Stream) error {
		return errors.Join(
			ferry.Copy(s, all, counter),
			ferry.CopyRect(s, ferry.Rect[uint32]{Memory: boxes, Width: 1, Height: 2, Pitch: 2}, ferry.Rect[uint32]{Memory: counter, Width: 1, Height: 2, Pitch: 3}),
		)
	}))(t)
	clear(boxes.Slice())
	boxes.Slice()[1] = 77
	closeAll(t, m)
	wantError(t, ferry.Copy(s, all, counter), ferry.ErrClosed, "variable counter")
	check(t, graph.Launch(s))
	if low.Slice()[0] != 20 || [4]uint32(all.Slice()) != [4]uint32{10, 20, 30, 40} {
		t.Errorf("got %v", memory)
	}
	if got := boxes.Slice(); [4]uint32(got) != [4]uint32{10, 77, 40, 0} {
		t.Errorf("got %v, want [10 77 40 0]", got)
	}
	_, err := s.Capture(func(s *ferry.Stream) error {
		return ferry.CopyRect(s, ferry.Rect[uint32]{Memory: boxes, Width: 1, Height: 2, Pitch: 2}, ferry.Rect[uint32]{Memory: ferry.Pageable(make([]uint32, 4)), Width: 1, Height: 2})
	})
	wantError(t, err, cu.ErrorInvalidValue, "pageable")
	closeAll(t, low, all, graph, boxes, s)
}
