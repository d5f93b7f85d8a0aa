package dlpack_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/dlpack"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// foreignKinds are the kinds of memory of a library that calls the driver itself. alloc returns an
// address and what frees it.
var foreignKinds = []struct {
	name  string
	place int
	alloc func(d cu.Driver, ctx cu.Context, bytes uintptr) (at cu.DevicePtr, free func() error, err error)
}{
	{"device", onCUDA, func(d cu.Driver, ctx cu.Context, n uintptr) (cu.DevicePtr, func() error, error) {
		p, err := d.MemAlloc(ctx, n)
		return p, func() error { return d.MemFree(ctx, p) }, err
	}},
	{"managed", onManaged, func(d cu.Driver, ctx cu.Context, n uintptr) (cu.DevicePtr, func() error, error) {
		p, err := d.MemAllocManaged(ctx, n, cu.MemAttachGlobal)
		return p, func() error { return d.MemFree(ctx, p) }, err
	}},
	{"managed as device", onCUDA, func(d cu.Driver, ctx cu.Context, n uintptr) (cu.DevicePtr, func() error, error) {
		p, err := d.MemAllocManaged(ctx, n, cu.MemAttachGlobal)
		return p, func() error { return d.MemFree(ctx, p) }, err
	}},
	{"page-locked", onHost, func(d cu.Driver, ctx cu.Context, n uintptr) (cu.DevicePtr, func() error, error) {
		p, err := d.MemHostAlloc(ctx, n, cu.MemHostAllocPortable|cu.MemHostAllocDeviceMap)
		return cu.DevicePtr(numberOf(p)), func() error { return d.MemFreeHost(ctx, p) }, err
	}},
	{"of the CPU", onCPU, func(d cu.Driver, ctx cu.Context, n uintptr) (cu.DevicePtr, func() error, error) {
		return 0, func() error { return nil }, nil // the library's own
	}},
}

// TestImport: a tensor of a library becomes a buffer of Ferry, whose kernels and copies work on it
// between two runs of the library. Close gives it back once, after the work in flight.
func TestImport(t *testing.T) {
	p := loadPeer(t)
	g, d := openTest(t)
	r := newRig(t, g)
	const n = 1200
	for _, k := range foreignKinds {
		at, free, err := k.alloc(d.Driver, g.CUContext(), 4*n)
		check(t, err)
		x := p.withDims(p.tensor(uint64(at), n, float32Type, k.place, 0), [2]int{30, 40}, [2]int{40, 1})
		before := p.deletions()
		a := must(dlpack.Import[float32](g, x))(t)
		m := a.Memory()
		if got := a.Shape(); !slices.Equal(got, []int{30, 40}) || m.Len() != n || a.ReadOnly() {
			t.Errorf("%s: shape %v, %d elements, read-only %t", k.name, got, m.Len(), a.ReadOnly())
		}
		r.fill(m)
		b := float32(1)
		if k.place != onCUDA {
			p.work(x, 3, 5)
			b = 6
		}
		on := m // memory that kernels can use
		if k.place == onCPU {
			buffer := must(ferry.Alloc[float32](g, n))(t)
			check(t, ferry.Copy(r.s, buffer, m))
			on = buffer
			t.Cleanup(func() { check(t, buffer.Close()) })
		}
		r.add1(on)
		if a, want := float32(3), b; k.place != onCUDA {
			r.want(k.name, on, a, want)
		} else {
			r.want(k.name, on, 1, want)
		}
		if k.place == onCPU {
			check(t, ferry.Copy(r.s, m, on))
		}
		if got := p.deletions() - before; got != 0 {
			t.Fatalf("%s: deleted before Close", k.name)
		}
		check(t, errors.Join(a.Close(), a.Close()))
		if got := p.deletions() - before; got != 1 {
			t.Errorf("%s: deleted %d times", k.name, got)
		}
		check(t, free())
	}
}

// TestImportCloseWaits: the deleter is called after the work in flight, also if many goroutines
// close, and if a graph has the buffer.
func TestImportCloseWaits(t *testing.T) {
	p := loadPeer(t)
	g, d := openTest(t)
	r := newRig(t, g)
	const n = 100
	at := must(d.MemAlloc(g.CUContext(), 4*n))(t)
	before := p.deletions()
	a := must(dlpack.Import[float32](g, p.tensor(uint64(at), n, float32Type, onCUDA, 0)))(t)
	r.fill(a.Memory())
	graph := must(r.s.Capture(func(s *ferry.Stream) error {
		return s.Launch(r.increment, ferry.Cover(n, 256), a.Memory(), uint64(n))
	}))(t)
	gate := make(chan struct{})
	check(t, r.s.HostFunc(func() { <-gate }))
	check(t, r.s.Launch(r.increment, ferry.Cover(n, 256), a.Memory(), uint64(n)))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := a.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait() // the graph owns it
	check(t, graph.Launch(r.s))
	if p.deletions() != before {
		t.Error("deleted under a graph")
	}
	done := make(chan error)
	go func() { done <- graph.Close() }()
	select {
	case err := <-done:
		t.Errorf("Close of the graph did not wait for a kernel: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if p.deletions() != before {
		t.Error("deleted under a kernel")
	}
	close(gate)
	check(t, <-done)
	if got := p.deletions() - before; got != 1 {
		t.Errorf("deleted %d times", got)
	}
	check(t, d.MemFree(g.CUContext(), at))
}

// TestImportShapes: what is compact is taken, whatever the strides of dimensions of one element.
func TestImportShapes(t *testing.T) {
	p := loadPeer(t)
	g, _ := openTest(t)
	for _, c := range []struct {
		what string
		x    dlpack.Tensor
		n    int
	}{
		{"no strides", p.with(p.tensor(0, 24, float32Type, onCPU, 0), fieldStrides, 0), 24},
		{"a dimension of 1", p.withDims(p.tensor(0, 24, float32Type, onCPU, 0), [2]int{4, 6}, [2]int{1, 999}, [2]int{6, 1}), 24},
		{"no dimension", p.withDims(p.tensor(0, 24, float32Type, onCPU, 0)), 1},
		{"nothing", p.withDims(p.tensor(0, 24, float32Type, onCPU, 0), [2]int{4, -7}, [2]int{0, 5}), 0},
		{"nothing at NULL", p.with(p.withDims(p.tensor(1, 24, float32Type, onCUDA, 0), [2]int{0, 1}), fieldData, 0), 0},
		{"a newer minor version", p.with(p.tensor(0, 24, float32Type, onCPU, 0), fieldMinor, 99), 24},
		{"a copy", p.with(p.tensor(0, 24, float32Type, onCPU, 0), fieldFlags, 2), 24},
	} {
		before := p.deletions()
		a, err := dlpack.Import[float32](g, c.x)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if a.Memory().Len() != c.n {
			t.Errorf("%s: %d elements, want %d", c.what, a.Memory().Len(), c.n)
		}
		check(t, a.Close())
		if p.deletions()-before != 1 {
			t.Errorf("%s: deleted %d times", c.what, p.deletions()-before)
		}
	}
	x := p.with(p.withDims(p.tensor(0, 24, float32Type, onCPU, 0), [2]int{4, 1}), fieldByteOffset, 8)
	base := p.field(x, fieldData)
	a := must(dlpack.Import[float32](g, x))(t)
	if got := addressOf(a.Memory().(*ferry.PageableSlice[float32]).Slice()); got != uint64(base)+8 {
		t.Errorf("with an offset of 8: at %#x, want %#x", got, base+8)
	}
	check(t, a.Close())
	x = p.with(p.tensor(0, 24, float32Type, onCPU, 0), fieldDeleter, 0)
	check(t, must(dlpack.Import[float32](g, x))(t).Close())
}

// TestImportTypes: the Go types for the types of tensors.
func TestImportTypes(t *testing.T) {
	p := loadPeer(t)
	g, _ := openTest(t)
	takes := func(typ dlpack.Type, imports func(dlpack.Tensor) error) {
		t.Helper()
		x := p.tensor(0, 4, typ, onCPU, 0)
		before := p.deletions()
		if err := imports(x); err != nil {
			t.Errorf("%v: %v", typ, err)
			x.Delete()
		}
		if p.deletions()-before != 1 {
			t.Errorf("%v: deleted %d times", typ, p.deletions()-before)
		}
	}
	refuses := func(typ dlpack.Type, imports func(dlpack.Tensor) error, part string) {
		t.Helper()
		x := p.tensor(0, 4, typ, onCPU, 0)
		gputest.WantError(t, imports(x), cu.ErrorInvalidValue, "the tensor says that it is", part)
		x.Delete()
	}
	type half uint16
	of := func(code, bits, lanes int) dlpack.Type { return dlpack.Type(code | bits<<8 | lanes<<16) }
	takes(of(0, 8, 1), as[int8](g))
	takes(of(0, 32, 1), as[int32](g))
	takes(of(0, 64, 1), as[int](g))
	takes(of(1, 16, 1), as[uint16](g))
	takes(of(2, 64, 1), as[float64](g))
	takes(of(5, 64, 1), as[complex64](g))
	takes(of(5, 128, 1), as[complex128](g))
	takes(of(2, 32, 4), as[[4]float32](g))
	takes(dlpack.Float16, as[half](g))
	takes(dlpack.BFloat16, as[uint16](g))
	takes(dlpack.Bool, as[uint8](g))
	takes(dlpack.Float8E4M3FN, as[uint8](g))
	takes(dlpack.Complex32, as[uint32](g))
	refuses(of(0, 32, 1), as[float32](g), "its elements are int32, and float32 was asked for: use int32")
	refuses(of(0, 32, 1), as[uint32](g), "use int32")
	refuses(of(2, 64, 1), as[float32](g), "use float64")
	refuses(of(2, 32, 1), as[uint32](g), "use float32")
	refuses(of(2, 32, 4), as[float32](g), "its elements are float32x4, and float32 was asked for: use [4]float32")
	refuses(of(2, 32, 1), as[[4]float32](g), "use float32")
	refuses(dlpack.Float16, as[uint8](g), "use uint16")
	refuses(dlpack.BFloat16, as[float32](g), "its elements are bfloat16")
	refuses(dlpack.Bool, as[bool](g), "use uint8")
	refuses(of(3, 64, 1), as[uint64](g), "Go has no elements of this type")
	refuses(of(17, 4, 2), as[uint8](g), "float4_e2m1fnx2")
	refuses(of(1, 4, 1), as[uint8](g), "Go has no elements of this type")
	refuses(of(2, 32, 0), as[float32](g), "Go has no elements of this type")
	refuses(of(7, 16, 1), as[uint16](g), "Go has no elements of this type")
	refuses(of(18, 8, 1), as[uint8](g), "its elements are type code 18 with 8 bits")
	refuses(of(4, 8, 1), as[uint8](g), "its elements are bfloat8")
}

// as imports a tensor with elements of a type, and closes it.
func as[T any](g *ferry.GPU) func(dlpack.Tensor) error {
	return func(x dlpack.Tensor) error {
		a, err := dlpack.Import[T](g, x)
		if err != nil {
			return err
		}
		return a.Close()
	}
}

// TestImportRefused: a bad tensor is an error that has what the tensor says, and the caller still
// has it.
func TestImportRefused(t *testing.T) {
	p := loadPeer(t)
	g, d := openTest(t)
	const n = 24
	device, host := must(d.MemAlloc(g.CUContext(), 4*n))(t), must(d.MemHostAlloc(g.CUContext(), 4*n, cu.MemHostAllocPortable))(t)
	freed := must(d.MemAlloc(g.CUContext(), 4*n))(t)
	check(t, d.MemFree(g.CUContext(), freed))
	cpu := make([]float32, n)
	on := func(place int, at uint64) dlpack.Tensor { return p.tensor(at, n, float32Type, place, 0) }
	own := must(ferry.AllocHost[float32](g, n, nil))(t)
	for _, c := range []struct {
		what  string
		x     dlpack.Tensor
		parts []string
	}{
		{"another major version", p.with(on(onCPU, 0), fieldMajor, 2), []string{"the tensor is of DLPack 2.0,", "Ferry knows 1.x"}},
		{"version 0", p.with(on(onCPU, 0), fieldMajor, 0), []string{"DLPack 0.0", "a DLManagedTensor without a version"}},
		{"negative dimensions", p.with(on(onCPU, 0), fieldNdim, 1<<32-1), []string{"-1 dimensions"}},
		{"too many dimensions", p.with(on(onCPU, 0), fieldNdim, 65), []string{"65 dimensions, must be 0 to 64"}},
		{"no shape", p.with(on(onCPU, 0), fieldShape, 0), []string{"1 dimensions, and no shape"}},
		{"a negative size", p.withDims(on(onCPU, 0), [2]int{4, 1}, [2]int{-6, 1}), []string{"float32 (4, -6)", "negative"}},
		{"too many elements", p.withDims(on(onCPU, 0), [2]int{1 << 40, 1 << 40}, [2]int{1 << 40, 1}), []string{"more elements than an address can count"}},
		{"too many bytes", p.withDims(on(onCPU, 0), [2]int{1 << 31, 1 << 31}, [2]int{1 << 31, 1}), []string{"more bytes than an address can count"}},
		{"an offset without end", p.with(on(onCPU, 0), fieldByteOffset, 1<<64-16), []string{"more than an address can count"}},
		{"column-major", p.withDims(on(onCPU, 0), [2]int{4, 1}, [2]int{6, 4}), []string{"float32 (4, 6) with strides (1, 4) on the CPU", "row-major order: dimension 1 has the stride 4, and would have 1", "contiguous"}},
		{"gaps", p.withDims(on(onCPU, 0), [2]int{2, 12}, [2]int{6, 1}), []string{"with strides (12, 1)"}},
		{"repeated", p.withDims(on(onCPU, 0), [2]int{4, 0}, [2]int{6, 1}), []string{"with strides (0, 1)"}},
		{"no memory", p.with(on(onCPU, addressOf(cpu)), fieldData, 0), []string{"no memory (NULL)"}},
		{"an odd address", on(onCPU, addressOf(cpu)+2), []string{"no multiple of 4"}},
		{"an odd address of page-locked memory", p.with(p.withDims(on(onHost, numberOf(host)), [2]int{4, 1}), fieldByteOffset, 2), []string{"no multiple of 4"}},
		{"an odd address of the device", p.with(p.withDims(on(onCUDA, uint64(device)), [2]int{4, 1}), fieldByteOffset, 2), []string{"no multiple of 4"}},
		{"another kind of device", on(8, 4096), []string{"on Metal device 0", "Ferry has no memory of such a device"}},
		{"no kind of device", on(99, 4096), []string{"of type 99"}},
		{"another device", p.with(on(onCUDA, uint64(device)), fieldDeviceID, 1), []string{"on CUDA device 1", "the GPU is device 0"}},
		{"freed memory", on(onCUDA, uint64(freed)), []string{"on CUDA device 0", "the driver says that", "memory that it does not know"}},
		{"memory of the CPU as the device's", on(onCUDA, addressOf(cpu)), []string{"the driver says that", "memory that it does not know"}},
		{"too short", p.withDims(on(onCUDA, uint64(device)), [2]int{1 << 24, 1}), []string{"float32 (16777216,)", "the buffer needs 64.0 MiB"}},
		{"page-locked as the device's", on(onCUDA, numberOf(host)), []string{"page-locked memory", "use WrapHost"}},
		{"device as page-locked", on(onHost, uint64(device)), []string{"device memory", "use WrapDevice"}},
		{"device as managed", on(onManaged, uint64(device)), []string{"device memory", "use WrapDevice"}},
		{"pageable as page-locked", on(onHost, addressOf(cpu)), []string{"page-locked for CUDA", "Register memory that is not page-locked"}},
		{"Ferry's own memory", on(onHost, addressOf(own.Slice())), []string{"it shares bytes with page-locked buffer"}},
	} {
		before := p.deletions()
		a, err := dlpack.Import[float32](g, c.x)
		if a != nil {
			t.Errorf("%s: an array beside an error", c.what)
		}
		gputest.WantError(t, err, cu.ErrorInvalidValue, append(c.parts, "import a tensor")...)
		if p.deletions() != before {
			t.Errorf("%s: the tensor was deleted", c.what)
			continue
		}
		c.x.Delete()
		if p.deletions() != before+1 {
			t.Errorf("%s: the caller cannot delete it", c.what)
		}
	}
	_, err := dlpack.Import[float32](g, 0)
	gputest.WantError(t, err, cu.ErrorInvalidValue, "no tensor given (NULL)")
	x := must(dlpack.Export(own, nil, nil))(t)
	_, err = dlpack.Import[float32](g, x)
	gputest.WantError(t, err, cu.ErrorInvalidValue, "it is of Export", "use the buffer")
	x.Delete()
	x = on(onCPU, 0)
	_, err = dlpack.Import[float32](nil, x)
	gputest.WantError(t, err, cu.ErrorInvalidValue, "import a tensor")
	x.Delete()
	check(t, errors.Join(own.Close(), d.MemFree(g.CUContext(), device), d.MemFreeHost(g.CUContext(), host)))
}

// TestImportReadOnly: Ferry refuses what it sees to write a read-only buffer, and reads it.
func TestImportReadOnly(t *testing.T) {
	p := loadPeer(t)
	g, d := openTest(t)
	r := newRig(t, g)
	const n = 100
	at := must(d.MemAlloc(g.CUContext(), 4*n))(t)
	before := p.deletions()
	x := p.with(p.tensor(uint64(at), n, float32Type, onCUDA, 0), fieldFlags, 1)
	a := must(dlpack.Import[float32](g, x))(t)
	if !a.ReadOnly() {
		t.Error("not read-only")
	}
	m := a.Memory().(*ferry.Device[float32])
	for what, err := range map[string]error{
		"Copy":     ferry.Copy(r.s, m, ferry.Pageable(make([]float32, n))),
		"Fill":     ferry.Fill(r.s, m, 1),
		"External": r.s.External(func(cu.Stream) error { return nil }, ferry.Writes(m)),
	} {
		if !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%s to a read-only tensor: %v", what, err)
		}
	}
	must(ferry.Download(m))(t)
	again := must(dlpack.Export(m, nil, nil))(t)
	if p.field(again, fieldFlags) != 1 {
		t.Error("exported again it is not read-only")
	}
	again.Delete()
	check(t, a.Close())
	eventually(t, "deleted", func() bool { return p.deletions() == before+1 }) // after the work of who had it again
	check(t, d.MemFree(g.CUContext(), at))
}

// TestImportAgainAndAgain: 10,000 tensors of a library leave nothing behind.
func TestImportAgainAndAgain(t *testing.T) {
	p := loadPeer(t)
	g, d := openTest(t)
	host := must(d.MemHostAlloc(g.CUContext(), 400, cu.MemHostAllocPortable))(t)
	before := p.deletions()
	for i := range 10000 {
		var at uint64
		place := onCPU
		if i%2 == 0 {
			at, place = numberOf(host), onHost
		}
		a := must(dlpack.Import[float32](g, p.tensor(at, 100, float32Type, place, 0)))(t)
		check(t, a.Close())
	}
	if got := p.deletions() - before; got != 10000 {
		t.Errorf("%d of 10000 tensors were deleted", got)
	}
	check(t, d.MemFreeHost(g.CUContext(), host))
}
