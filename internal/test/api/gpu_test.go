package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestGPUProperties: memory sizes, attributes and the clock are plausible.
func TestGPUProperties(t *testing.T) {
	g := openTest(t)
	free, total, err := g.MemInfo()
	check(t, err)
	if free <= 0 || free > total {
		t.Errorf("MemInfo: %d of %d bytes are free", free, total)
	}
	if n := must(g.Attribute(cu.DeviceAttributeWarpSize))(t); n != 32 {
		t.Errorf("the warp size is %d, want 32", n)
	}
	_, err = g.Attribute(99999)
	wantError(t, err, cu.ErrorInvalidValue, "CU_DEVICE_ATTRIBUTE_99999")
	before := g.Now()
	check(t, g.Wait(context.Background()))
	if after := g.Now(); after < before {
		t.Errorf("Now went from %v to %v", before, after)
	}
}

// priorityDriver records the priorities of streams. It can fail to report their range.
type priorityDriver struct {
	cu.Driver
	fails bool
	given []int32
}

func (d *priorityDriver) Unwrap() cu.Driver { return d.Driver }

func (d *priorityDriver) CtxGetStreamPriorityRange(ctx cu.Context) (least, greatest int32, err error) {
	if d.fails {
		return 3, 4, cu.ErrorNotMapped
	}
	return d.Driver.CtxGetStreamPriorityRange(ctx)
}

func (d *priorityDriver) StreamCreateWithPriority(ctx cu.Context, flags cu.StreamFlags, priority int32) (cu.Stream, error) {
	d.given = append(d.given, priority)
	return d.Driver.StreamCreateWithPriority(ctx, flags, priority)
}

// TestPriorities: Priorities returns the range of the device. Streams can have every priority of
// it. The driver is given numbers outside of it as they are, or the nearest that it can have.
func TestPriorities(t *testing.T) {
	for name, want := range map[string]int{"h200": -5, "fermi-c2050": 0} {
		g := openSoft(t, name, softgpu.Eager)
		if least, greatest, err := g.Priorities(); least != 0 || greatest != want || err != nil {
			t.Errorf("%s: the priorities are %d to %d, %v; want 0 to %d", name, least, greatest, err, want)
		}
	}
	d := &priorityDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(d, 0))(t)
	least, greatest, err := g.Priorities()
	check(t, err)
	var want []int32
	for p := least; p >= greatest; p-- {
		closeAll(t, must(ferry.NewStream(g, &ferry.StreamOptions{Priority: p}))(t))
		if p != 0 {
			want = append(want, int32(p))
		}
	}
	for _, p := range []int{100, -100, math.MaxInt, math.MinInt, 1 << 32} {
		closeAll(t, must(ferry.NewStream(g, &ferry.StreamOptions{Priority: p}))(t))
	}
	want = append(want, 100, -100, math.MaxInt16, math.MinInt16, math.MaxInt16) // no device has as many
	if !slices.Equal(d.given, want) {
		t.Errorf("the driver made streams of priorities %d, want %d", d.given, want)
	}
	d.fails = true
	least, greatest, err = g.Priorities()
	wantError(t, err, cu.ErrorNotMapped, "read stream priorities of soft:h200")
	if least != 0 || greatest != 0 {
		t.Errorf("the priorities %d and %d come with the error", least, greatest)
	}
	closeAll(t, g)
	_, _, err = g.Priorities()
	wantError(t, err, ferry.ErrClosed, "soft:h200")
}

// TestGPUClose: things that are open work on after Close of the GPU, and nothing new can be
// made. The last of them releases the context.
func TestGPUClose(t *testing.T) {
	g := must(ferry.Open("soft"))(t)
	host := must(ferry.AllocHost[byte](g, 100, nil))(t)
	device := must(ferry.Alloc[byte](g, 100))(t)
	s := must(ferry.NewStream(g, nil))(t)
	closeAll(t, g, g)
	fillRandom(host.Slice())
	want := append([]byte(nil), host.Slice()...)
	check(t, ferry.Copy(s, device, host))
	check(t, ferry.Copy(s, host, device))
	if got := host.Slice(); string(got) != string(want) {
		t.Error("the bytes differ after Close of the GPU")
	}
	_, err := ferry.Alloc[byte](g, 1)
	wantError(t, err, ferry.ErrClosed, "soft:h200")
	_, err = ferry.NewStream(g, nil)
	wantError(t, err, ferry.ErrClosed)
	_, err = ferry.NewEvent(g, nil)
	wantError(t, err, ferry.ErrClosed)
	_, _, err = g.MemInfo()
	wantError(t, err, ferry.ErrClosed)
	closeAll(t, s, device, host)
	_, active, err := g.Driver().DevicePrimaryCtxGetState(0)
	check(t, err)
	if active != 0 {
		t.Error("the primary context is still retained after the last Close")
	}
	wantError(t, g.Wait(context.Background()), ferry.ErrClosed)
	wantError(t, g.DefaultStream().Record(nil), ferry.ErrClosed)
	check(t, s.Wait(context.Background()))
	check(t, (*ferry.GPU)(nil).Close())
}

// TestGPUGrid: Grid has as many blocks as n threads need, but not more than keep an H200 busy.
func TestGPUGrid(t *testing.T) {
	gputest.NeedsH200(t, "its times and sizes")
	g := openSoft(t, "h200", softgpu.Eager)
	for n, want := range map[int]uint32{0: 1, 1: 1, 128: 1, 129: 2, 1 << 18: 2048, 1 << 20: 2112, 1 << 40: 2112} {
		if got := g.GridStride(n); got.Grid.X != want || got.Block.X != 128 {
			t.Errorf("GridStride(%d) is %v, want %d blocks of 128 threads", n, got, want)
		}
	}
	if got := g.GridStride(-1); got.Grid.X != 0 {
		t.Errorf("GridStride(-1) is %v, which Launch accepts", got)
	}
}

// TestUnsupported: the error for what a device cannot do names the attribute and what to do
// instead.
func TestUnsupported(t *testing.T) {
	g := openSoft(t, "fermi-c2050", softgpu.Eager)
	_, err := ferry.AllocManaged[byte](g, 1, nil)
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY is 0", "AllocHost", "soft:fermi-c2050")
	_, err = ferry.Register(g, make([]byte, 10), nil)
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED is 0", "AllocHost")

	d := newFake()
	clear(d.Attributes)
	fake := openDriver(t, d)
	_, err = ferry.AllocHost[byte](fake, 1, &ferry.HostOptions{Mapped: true})
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY is 0", "without Mapped")
	d.Attributes[cu.DeviceAttributeHostRegisterSupported] = 1
	fake = openDriver(t, d)
	_, err = ferry.Register(fake, make([]byte, 1), &ferry.RegisterOptions{Mapped: true})
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY is 0")
	_, err = ferry.Register(fake, make([]byte, 1), &ferry.RegisterOptions{ReadOnly: true})
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED is 0", "AllocHost")
}

// TestPeer: kernels can use another GPU's memory after EnablePeer. Before it, Ferry refuses
// the launch.
func TestPeer(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		const n = 10_000
		s := must(ferry.NewStream(a, nil))(t)
		code, k := load(t, a, "increment")
		near, far := must(ferry.Alloc[float32](a, n))(t), must(ferry.Alloc[float32](b, n))(t)
		host := must(ferry.AllocHost[float32](b, n, &ferry.HostOptions{Mapped: true}))(t)
		for i := range host.Slice() {
			host.Slice()[i] = float32(i)
		}
		check(t, s.Launch(k, ferry.Cover(n, 256), host, uint64(n))) // portable memory needs no peer access
		check(t, ferry.Copy(s, far, host))
		wantError(t, s.Launch(k, ferry.Cover(n, 256), far, uint64(n)), cu.ErrorPeerAccessNotEnabled, "parameter 0", "memory of another GPU", "EnablePeer", "or Copy")
		can := must(a.CanAccessPeer(b))(t)
		if !can {
			wantError(t, a.EnablePeer(b), cu.ErrorPeerAccessUnsupported, "cuDeviceCanAccessPeer is 0")
			t.Skip("the GPUs cannot reach each other")
		}
		check(t, a.EnablePeer(b))
		check(t, a.EnablePeer(b))
		check(t, s.Launch(k, ferry.Cover(n, 256), far, uint64(n)))
		check(t, ferry.Copy(s, near, far))
		check(t, ferry.Copy(s, host, near))
		for i, got := range host.Slice() {
			if got != float32(i+2) {
				t.Fatalf("element %d is %v, want %d", i, got, i+2)
			}
		}
		closeAll(t, near, far, host, code, s)
	})
}

// TestPeerRefused: peer access to itself, to another driver's GPU, and to a nil or closed GPU.
func TestPeerRefused(t *testing.T) {
	g := openTest(t)
	if !must(g.CanAccessPeer(g))(t) {
		t.Error("a GPU cannot use its own memory")
	}
	check(t, g.EnablePeer(g))
	other := must(ferry.Open("soft"))(t)
	if must(g.CanAccessPeer(other))(t) {
		t.Error("GPUs of different drivers can use each other's memory")
	}
	wantError(t, g.EnablePeer(other), cu.ErrorPeerAccessUnsupported, "different drivers")
	wantError(t, g.EnablePeer(nil), cu.ErrorInvalidValue, "enable peer access: no GPU given")
	wantError(t, (*ferry.GPU)(nil).EnablePeer(g), cu.ErrorInvalidValue, "no GPU given")
	closeAll(t, other)
	wantError(t, g.EnablePeer(other), ferry.ErrClosed, "enable peer access")
}

// TestWrongDevice: kernels and events on a stream of another device are the documented
// errors. Copies can use a stream of any device.
func TestWrongDevice(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		s, far := must(ferry.NewStream(a, nil))(t), must(ferry.NewStream(b, nil))(t)
		code := must(ferry.Load(a, []byte(kernels.PTX), nil))(t)
		k := must(code.Kernel("increment"))(t)
		v := must(ferry.Alloc[float32](a, 100))(t)
		host := must(ferry.AllocHost[float32](a, 100, nil))(t)
		wantError(t, far.Launch(k, ferry.Cover(100, 32), v, uint64(100)), cu.ErrorInvalidHandle, "the kernel was loaded on")
		mine, theirs := must(ferry.NewEvent(a, nil))(t), must(ferry.NewEvent(b, nil))(t)
		wantError(t, s.Record(theirs), cu.ErrorInvalidHandle, "belong to one GPU")
		wantError(t, far.Record(mine), cu.ErrorInvalidHandle, "belong to one GPU")
		check(t, s.Record(mine))
		check(t, far.Record(theirs))
		_, err := theirs.Since(mine)
		wantError(t, err, cu.ErrorInvalidHandle, "measure", "belong to one GPU")
		check(t, s.WaitEvent(theirs))
		check(t, theirs.Wait(context.Background()))

		for i := range host.Slice() {
			host.Slice()[i] = float32(i)
		}
		want := bytes.Clone(asBytes(host.Slice()))
		check(t, ferry.Copy(far, v, host)) // memory of one device on a stream of the other
		clear(host.Slice())
		check(t, v.Wait(context.Background()))
		check(t, ferry.Copy(far, host, v))
		if !bytes.Equal(asBytes(host.Slice()), want) {
			t.Error("the bytes differ")
		}
		closeAll(t, mine, theirs, v, host, code, s, far)
	})
}

// The CPU's copies from host to host take virtual time, with and without unified addressing.
func TestHostCopyTakesTime(t *testing.T) {
	gputest.NeedsH200(t, "its times and sizes")
	for _, name := range []string{"h200", "fermi-c2050", "tesla-c1060"} {
		g := openSoft(t, name, softgpu.Eager)
		const n = 1 << 20
		a, err := ferry.AllocHost[byte](g, n, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		b, err := ferry.AllocHost[byte](g, n, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		s, err := ferry.NewStream(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for what, dst := range map[string]ferry.Memory[byte]{"page-locked": b, "pageable": ferry.Pageable(make([]byte, n))} {
			before := g.Now()
			check(t, ferry.Copy(s, dst, a))
			// The slowest of these CPUs copies 4 GB/s, the fastest 14.
			if took := g.Now() - before; took < 60*time.Microsecond || took > 300*time.Microsecond {
				t.Errorf("%s: a copy of 1 MiB to %s memory takes %v", name, what, took)
			}
		}
	}
}

// TestAfterFault: the first error after a fault says where the kernel failed, that the context
// is lost, and how to go on. Every later call returns the code in one line that names the
// kernel, says once how to go on, and does not repeat the first error.
func TestAfterFault(t *testing.T) {
	ctx := context.Background()
	soft, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(soft, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ferry.Load(g, []byte(kernels.PTX), nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("increment")
	if err != nil {
		t.Fatal(err)
	}
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	on, err := ferry.Alloc[float32](g, 100)
	if err != nil {
		t.Fatal(err)
	}
	host, err := ferry.AllocHost[float32](g, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ferry.NewEvent(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	var used [3]*ferry.Device[float32] // the graph frees them
	for i := range used {
		used[i] = must(ferry.Alloc[float32](g, 1000))(t)
	}
	graph := must(s.Capture(func(s *ferry.Stream) error {
		return errors.Join(ferry.Fill(s, used[0], 1), ferry.Fill(s, used[1], 1), ferry.Fill(s, used[2], 1))
	}))(t)
	for _, x := range used {
		check(t, x.Close())
	}
	if err := s.Launch(k, ferry.Cover(64, 32), on, uint64(1<<20)); err != nil {
		t.Fatal(err)
	}

	const place, goOn = "kernel increment", "the process must restart"
	err = s.Wait(ctx)
	wantError(t, err, cu.ErrorIllegalAddress, place, "past the end of a 400-byte device allocation", "the context is lost: "+goOn)
	first, ok := errors.AsType[*cu.Fault](err)
	if !ok {
		t.Fatalf("the first error is %T", err)
	}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Wait", func() error { return s.Wait(ctx) }},
		{"Done", func() error { _, err := s.Done(); return err }},
		{"Copy", func() error { return ferry.Copy(s, host, on) }},
		{"Fill", func() error { return ferry.Fill(s, on, 1) }},
		{"Launch", func() error { return s.Launch(k, ferry.Cover(64, 32), on, uint64(100)) }},
		{"Record", func() error { return s.Record(e) }},
		{"HostFunc", func() error { return s.HostFunc(func() {}) }},
		{"GPU.Wait", func() error { return g.Wait(ctx) }},
		{"MemInfo", func() error { _, _, err := g.MemInfo(); return err }},
		{"Alloc", func() error { _, err := ferry.Alloc[byte](g, 10); return err }},
		{"AllocHost", func() error { _, err := ferry.AllocHost[byte](g, 10, nil); return err }},
		{"NewStream", func() error { _, err := ferry.NewStream(g, nil); return err }},
		{"NewEvent", func() error { _, err := ferry.NewEvent(g, nil); return err }},
		{"Load", func() error { _, err := ferry.Load(g, []byte(kernels.PTX), nil); return err }},
		{"CopyFrom", func() error {
			_, err := ferry.CopyFrom(ctx, s, on, bytes.NewReader(make([]byte, 400)))
			return err
		}},
		{"Pipeline.Run", func() error {
			p := &pipeline.Pipeline{GPU: g, In: []pipeline.End{host}, Out: []pipeline.End{host}, InPlace: true,
				Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
			_, err := p.Run(ctx)
			return errors.Join(err, p.Close())
		}},
		{"OpenDriver", func() error { _, err := ferry.OpenDriver(soft, 0); return err }},
		{"Graph.Close", graph.Close}, {"Device.Close", on.Close}, {"Host.Close", host.Close}, {"Event.Close", e.Close}, {"Stream.Close", s.Close}, {"Module.Close", m.Close},
	} {
		err := c.call()
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		lost, ok := errors.AsType[*cu.Lost](err)
		if !ok || lost.First != error(first) || !errors.Is(err, cu.ErrorIllegalAddress) {
			t.Errorf("%s: %v: it does not wrap the first fault and the code", c.name, err)
		}
		if text := err.Error(); strings.Count(text, place) != 1 || strings.Count(text, goOn) != 1 || strings.Contains(text, first.Near) || strings.Contains(text, "\n") {
			t.Errorf("%s: %s", c.name, text)
		}
		if text := fmt.Sprintf("%+v", lost); !strings.Contains(text, first.Error()) {
			t.Errorf("%s: %%+v is %s", c.name, text)
		}
	}
	if err := g.Close(); err != nil {
		wantError(t, err, cu.ErrorIllegalAddress, goOn)
	}
	again, err := softgpu.Open(softgpu.Options{}) // what the error says
	if err != nil {
		t.Fatal(err)
	}
	g, err = ferry.OpenDriver(again, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
