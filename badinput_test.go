package ferry_test

import (
	"context"
	"math"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestAllocBad: sizes and types that cannot be.
func TestAllocBad(t *testing.T) {
	g := openTest(t)
	_, total, err := g.MemInfo()
	check(t, err)

	_, err = ferry.Alloc[float32](g, -1)
	wantError(t, err, cu.ErrorInvalidValue, "-1 elements of float32")
	_, err = ferry.Alloc[[1 << 20]float64](g, math.MaxInt)
	wantError(t, err, cu.ErrorOutOfMemory, "more bytes than an address can count")
	_, err = ferry.AllocHost[int](g, math.MinInt, nil)
	wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
	_, err = ferry.Alloc[byte](g, total+1)
	wantError(t, err, cu.ErrorOutOfMemory, "allocate", "of device memory on "+name(g), "are free", "larger than the device")
	_, err = ferry.Alloc[byte](g, math.MaxInt)
	wantError(t, err, cu.ErrorOutOfMemory, "8388608.0 TiB of device memory")

	_, err = ferry.Alloc[string](g, 1)
	wantError(t, err, cu.ErrorInvalidValue, "type string hold Go pointers")
	_, err = ferry.AllocHost[struct{ A struct{ B [2]*int } }](g, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, ".A.B[0] is *int")
	_, err = ferry.Register(g, []any{1}, nil)
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")
	_, err = ferry.AllocManaged[[]byte](g, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")

	_, err = ferry.Alloc[byte](nil, 1)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.AllocHost[byte](nil, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.AllocManaged[byte](nil, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.Register(nil, []byte{1}, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
}

// name is a GPU's name without what is in brackets.
func name(g *ferry.GPU) string {
	if g.Emulated() {
		return "soft:" + g.Profile()
	}
	return "cuda:0"
}

// TestRefusals: what a device cannot do names the attribute and what to do.
func TestRefusals(t *testing.T) {
	g := openSoft(t, "fermi-c2050", softgpu.Eager)
	_, err := ferry.AllocManaged[byte](g, 1, nil)
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY is 0", "AllocHost", "soft:fermi-c2050")
	_, err = ferry.Register(g, make([]byte, 10), nil)
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED is 0", "AllocHost")

	d := newFake()
	clear(d.attributes)
	fake := openFake(t, d)
	_, err = ferry.AllocHost[byte](fake, 1, &ferry.HostOptions{Mapped: true})
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY is 0", "without Mapped")
	d.attributes[cu.DeviceAttributeHostRegisterSupported] = 1
	fake = openFake(t, d)
	_, err = ferry.Register(fake, make([]byte, 1), &ferry.RegisterOptions{Mapped: true})
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY is 0")
	_, err = ferry.Register(fake, make([]byte, 1), &ferry.RegisterOptions{ReadOnly: true})
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED is 0", "AllocHost")
}

// TestUnmapped: without unified addressing, memory not mapped has no address.
func TestUnmapped(t *testing.T) {
	g := openSoft(t, "fermi-c2050", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	h := must(ferry.AllocHost[float32](g, 10, nil))(t)
	defer closeAll(t, s, code, h)
	if h.Pointer() != 0 {
		t.Errorf("the address is %#x", h.Pointer())
	}
	wantError(t, s.Launch(k, ferry.Grid(10, 32), h, uint64(10)), cu.ErrorInvalidValue, "parameter 0", "no address on the device", "Mapped")
	wantError(t, ferry.Fill(s, h, 1), cu.ErrorInvalidValue, "no address on the device")
	m := must(ferry.AllocHost[float32](g, 10, &ferry.HostOptions{Mapped: true}))(t)
	defer closeAll(t, m)
	clear(m.Slice())
	check(t, s.Launch(k, ferry.Grid(10, 32), m, uint64(10)))
	if got := m.Slice()[9]; got != 1 {
		t.Errorf("got %v, want 1", got)
	}
}

// TestCopyBad: what cannot be copied.
func TestCopyBad(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	d, h := must(ferry.Alloc[byte](g, 100))(t), must(ferry.AllocHost[byte](g, 100, nil))(t)
	defer closeAll(t, s, d, h)
	for _, c := range []struct {
		err   error
		parts []string
	}{
		{ferry.Copy(s, d, h.Range(0, 99)), []string{"has 100 elements", "has 99", "copy on stream"}},
		{ferry.Copy(s, d.Range(-1, 99), h), []string{"range [-1:99]", "100"}},
		{ferry.Copy(s, d.Range(5, 4), h), []string{"range [5:4]"}},
		{ferry.Copy(s, d, h.Range(0, 101)), []string{"range [0:101]", "page-locked buffer"}},
		{ferry.Copy(s, d, h.Range(50, 101).Range(0, 1)), []string{"range [50:101]"}},
		{ferry.Copy(s, d, ferry.Pageable(make([]byte, 10)).Range(3, 11)), []string{"range [3:11]", "pageable"}},
		{ferry.Copy(s, d.Range(0, 50), d.Range(1, 51)), []string{"overlap"}},
		{ferry.Copy(s, h.Range(10, 60), h.Range(0, 50)), []string{"overlap"}},
		{ferry.Copy[byte](s, nil, h), []string{"copy to", "nil"}},
		{ferry.Copy[byte](s, d, nil), []string{"copy from", "nil"}},
		{ferry.Copy(s, d, (*ferry.Host[byte])(nil)), []string{"copy from", "nil"}},
		{ferry.Copy(nil, d, h), []string{"no stream given"}},
		{ferry.Copy(&ferry.Stream{}, d, h), []string{"no stream given"}},
		{ferry.Copy(s, ferry.Pageable([]string{"a"}), ferry.Pageable([]string{"b"})), []string{"Go pointers"}},
		{ferry.Fill(s, ferry.Pageable([]byte{1}), 1), []string{"pageable", "loop"}},
		{ferry.Fill(s, d.Range(0, 101), 1), []string{"range [0:101]"}},
		{s.HostFunc(nil), []string{"no function given"}},
		{s.Record(nil), []string{"no event given"}},
		{s.WaitEvent(nil), []string{"no event given"}},
		{(*ferry.Stream)(nil).Wait(context.Background()), []string{"no stream given"}},
	} {
		wantError(t, c.err, cu.ErrorInvalidValue, c.parts...)
	}
	r := h.Range(3, 200)
	wantError(t, sliceError(r.Slice), cu.ErrorInvalidValue, "range [3:200]", "page-locked buffer")
	if r.Len() != 0 || r.Close() != nil {
		t.Error("a range that does not exist has something in it")
	}
	check(t, ferry.Copy(s, d, d)) // to itself: nothing to do
	check(t, ferry.Copy(s, d.Range(0, 50), d.Range(50, 100)))
	check(t, s.Wait(context.Background()))
}

// TestReadOnly: the GPU does not write what was registered for reading.
func TestReadOnly(t *testing.T) {
	g := openTest(t)
	if n, err := g.Attribute(cu.DeviceAttributeReadOnlyHostRegisterSupported); err != nil || n == 0 {
		t.Skip("the device cannot register read-only memory")
	}
	s := must(ferry.NewStream(g, nil))(t)
	r := must(ferry.Register(g, make([]byte, 4096), &ferry.RegisterOptions{ReadOnly: true}))(t)
	d := must(ferry.Alloc[byte](g, 4096))(t)
	check(t, ferry.Copy(s, d, r))
	wantError(t, ferry.Copy(s, r, d), cu.ErrorInvalidValue, "registered read-only")
	wantError(t, ferry.Fill(s, r, 1), cu.ErrorInvalidValue, "registered read-only")
	closeAll(t, r, d, s)
}

// TestEventBad: events that cannot be measured.
func TestEventBad(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	a, b, silent := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, &ferry.EventOptions{NoTiming: true}))(t)
	_, err := a.Since(b)
	wantError(t, err, cu.ErrorInvalidValue, "never recorded")
	check(t, a.Wait(context.Background())) // not recorded counts as done
	check(t, s.Record(silent))
	check(t, s.Record(a))
	_, err = a.Since(silent)
	wantError(t, err, cu.ErrorInvalidValue, "NoTiming")
	_, err = a.Since(nil)
	wantError(t, err, cu.ErrorInvalidValue, "no event given")
	open := gate(t, s)
	check(t, s.Record(b))
	_, err = b.Since(a)
	wantError(t, err, cu.ErrorNotReady, "measure")
	open()
	check(t, b.Wait(context.Background()))
	if d, err := b.Since(a); err != nil || d < 0 {
		t.Errorf("%v, %v", d, err)
	}
	closeAll(t, a, a, b, silent)
	wantError(t, s.Record(a), ferry.ErrClosed, "event")
	wantError(t, s.WaitEvent(a), ferry.ErrClosed, "event")
	wantError(t, a.Wait(context.Background()), ferry.ErrClosed, "event")
	other := must(ferry.Open("soft"))(t)
	stranger := must(ferry.NewEvent(other, nil))(t)
	wantError(t, s.Record(stranger), cu.ErrorInvalidHandle, "one GPU")
	wantError(t, s.WaitEvent(stranger), cu.ErrorInvalidValue, "one driver")
	closeAll(t, stranger, other, s)
}
