package dlpack_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/dlpack"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// TestLayout: the struct is that of the C compiler.
func TestLayout(t *testing.T) {
	p := loadPeer(t)
	for i, got := range dlpack.LayoutOf() {
		if want := p.layoutOf(i); int(got) != want {
			t.Errorf("field %d is at %d, and in C at %d", i, got, want)
		}
	}
}

// held is a buffer of a kind of memory of a test.
type held interface {
	ferry.Memory[float32]
	io.Closer
}

// ownKinds are the kinds of memory that Ferry allocates, with their place in DLPack.
var ownKinds = []struct {
	name  string
	place int
	alloc func(*ferry.GPU, int) (held, error)
}{
	{"device", onCUDA, func(g *ferry.GPU, n int) (held, error) { return ferry.Alloc[float32](g, n) }},
	{"page-locked", onHost, func(g *ferry.GPU, n int) (held, error) { return ferry.AllocHost[float32](g, n, nil) }},
	{"registered", onHost, func(g *ferry.GPU, n int) (held, error) { return ferry.Register(g, make([]float32, n), nil) }},
	{"managed", onManaged, func(g *ferry.GPU, n int) (held, error) { return ferry.AllocManaged[float32](g, n, nil) }},
}

// TestExport: a library in C sees the memory of each kind where it is, with its shape, and changes
// it where the CPU can, between two kernels of Ferry.
func TestExport(t *testing.T) {
	p := loadPeer(t)
	g, _ := openTest(t)
	r := newRig(t, g)
	const rows, columns = 30, 40
	for _, k := range ownKinds {
		b := must(k.alloc(g, rows*columns))(t)
		r.fill(b)
		r.add1(b)
		x := must(dlpack.Export(b, []int{rows, columns}, nil))(t)
		wantTensor(t, p, x, k.name, k.place, float32Type, [][2]int{{rows, columns}, {columns, 1}})
		if d, ok := b.(*ferry.Device[float32]); ok {
			if got := p.field(x, fieldData); got != int64(d.Pointer()) {
				t.Errorf("device memory at %#x, want %#x", got, d.Pointer())
			}
			r.add1(b)
			x.Delete()
			r.want(k.name, b, 1, 2)
		} else {
			if n := p.work(x, 3, 5); n != rows*columns {
				t.Errorf("%s: the library changed %d elements", k.name, n)
			}
			x.Delete()
			r.add1(b)
			r.want(k.name, b, 3, 9) // (i+1)*3+5+1
		}
		check(t, b.Close())
	}
	s := []float32{1, 2, 3, 4}
	x := must(dlpack.Export(ferry.Pageable(s), nil, nil))(t)
	wantTensor(t, p, x, "pageable", onCPU, float32Type, [][2]int{{4, 1}})
	if p.work(x, 10, 1); !slices.Equal(s, []float32{11, 21, 31, 41}) {
		t.Errorf("pageable: %v", s)
	}
	x.Delete()
	if n := dlpack.Held(); n != 0 {
		t.Errorf("%d tensors are left", n)
	}
}

// wantTensor checks what a library sees of a tensor.
func wantTensor(t *testing.T, p *peer, x dlpack.Tensor, what string, place int, typ dlpack.Type, dims [][2]int) {
	t.Helper()
	for field, want := range map[int]int64{fieldMajor: 1, fieldMinor: 3, fieldFlags: 0, fieldDeviceType: int64(place), fieldDeviceID: 0,
		fieldNdim: int64(len(dims)), fieldType: int64(typ), fieldByteOffset: 0} {
		if got := p.field(x, field); got != want {
			t.Errorf("%s: field %d is %d, want %d", what, field, got, want)
		}
	}
	if got := p.dims(x); !slices.Equal(got, dims) {
		t.Errorf("%s: sizes and strides are %v, want %v", what, got, dims)
	}
}

// TestExportShapes: shapes, views, ranges and elements of each type, as the library sees them.
func TestExportShapes(t *testing.T) {
	p := loadPeer(t)
	g, _ := openTest(t)
	h := must(ferry.AllocHost[float32](g, 24, nil))(t)
	bytes := must(ferry.AllocHost[uint16](g, 8, nil))(t)
	none := must(ferry.AllocHost[float32](g, 0, nil))(t)
	vectors := must(ferry.AllocHost[[3][2]int32](g, 4, nil))(t)
	base := addressOf(h.Slice())
	for _, c := range []struct {
		what string
		x    dlpack.Tensor
		dims [][2]int
		typ  dlpack.Type
		data uint64
	}{
		{"no shape", must(dlpack.Export(h, nil, nil))(t), [][2]int{{24, 1}}, float32Type, base},
		{"three dimensions", must(dlpack.Export(h, []int{2, 3, 4}, nil))(t), [][2]int{{2, 12}, {3, 4}, {4, 1}}, float32Type, base},
		{"no dimension", must(dlpack.Export(h.Range(3, 4), []int{}, nil))(t), nil, float32Type, base + 12},
		{"a range", must(dlpack.Export(h.Range(4, 16), []int{3, 4}, nil))(t), [][2]int{{3, 4}, {4, 1}}, float32Type, base + 16},
		{"a view", must(dlpack.Export(ferry.View[int64](h), []int{12, 1}, nil))(t), [][2]int{{12, 1}, {1, 1}}, int64Type, base},
		{"arrays", must(dlpack.Export(vectors, []int{2, 2}, nil))(t), [][2]int{{2, 12}, {2, 6}, {3, 2}, {2, 1}}, 32<<8 | 1<<16, addressOf(vectors.Slice())},
		{"nothing", must(dlpack.Export(none, []int{3, 0, 5}, nil))(t), [][2]int{{3, 5}, {0, 5}, {5, 1}}, float32Type, 0},
		{"float16", must(dlpack.Export(bytes, nil, &dlpack.Options{Type: dlpack.Float16}))(t), [][2]int{{8, 1}}, dlpack.Float16, addressOf(bytes.Slice())},
		{"bool", must(dlpack.Export(bytes.Bytes(), nil, &dlpack.Options{Type: dlpack.Bool}))(t), [][2]int{{16, 1}}, dlpack.Bool, addressOf(bytes.Slice())},
	} {
		place := onHost
		wantTensor(t, p, c.x, c.what, place, c.typ, c.dims)
		if got := uint64(p.field(c.x, fieldData)); got != c.data {
			t.Errorf("%s: at %#x, want %#x", c.what, got, c.data)
		}
		c.x.Delete()
	}
	x := must(dlpack.Export(h, nil, &dlpack.Options{ReadOnly: true}))(t)
	if p.field(x, fieldFlags) != 1 {
		t.Errorf("flags of a read-only tensor: %d", p.field(x, fieldFlags))
	}
	x.Delete()
	gputest.CloseAll(t, h, bytes, none, vectors)
}

// TestExportRefused: what cannot be exported, and that nothing stays held after an error.
func TestExportRefused(t *testing.T) {
	g, d := openTest(t)
	h := must(ferry.AllocHost[uint8](g, 12, nil))(t)
	closed := must(ferry.Alloc[float32](g, 3))(t)
	check(t, closed.Close())
	type pair struct{ A, B int32 }
	pairs := must(ferry.AllocHost[pair](g, 4, nil))(t)
	deep := make([]int, 65)
	for i := range deep {
		deep[i] = 1
	}
	export := func(shape []int, o *dlpack.Options) error {
		x, err := dlpack.Export(h, shape, o)
		if x != 0 {
			t.Error("a tensor beside an error")
		}
		return err
	}
	_, ofNil := dlpack.Export[float32](nil, nil, nil)
	_, ofNilBuffer := dlpack.Export((*ferry.Host[float32])(nil), nil, nil)
	_, ofClosed := dlpack.Export(closed, nil, nil)
	_, ofRange := dlpack.Export(h.Range(5, 20), nil, nil)
	_, ofPairs := dlpack.Export(pairs, nil, nil)
	_, ofView := dlpack.Export(ferry.View[uint64](h), nil, nil)
	gputest.WantError(t, ofNil, cu.ErrorInvalidValue, "no buffer given")
	gputest.WantError(t, ofNilBuffer, cu.ErrorInvalidValue, "no buffer given")
	gputest.WantError(t, ofClosed, ferry.ErrClosed, "export memory", "device buffer")
	gputest.WantError(t, ofRange, cu.ErrorInvalidValue, "range [5:20]")
	gputest.WantError(t, ofPairs, cu.ErrorInvalidValue, "pair", "no numbers")
	gputest.WantError(t, ofView, cu.ErrorInvalidValue, "12 bytes are no multiple of 8")
	gputest.WantError(t, export([]int{3, 5}, nil), cu.ErrorInvalidValue, "shape (3, 5) has 15 elements", "has 12")
	gputest.WantError(t, export([]int{}, nil), cu.ErrorInvalidValue, "shape () has 1 elements", "has 12")
	gputest.WantError(t, export([]int{-3, -4}, nil), cu.ErrorInvalidValue, "(-3, -4) is negative")
	gputest.WantError(t, export([]int{math.MaxInt, 4, 3}, nil), cu.ErrorInvalidValue, "more elements than an address can count")
	gputest.WantError(t, export(append(deep, 12), nil), cu.ErrorInvalidValue, "66 dimensions")
	gputest.WantError(t, export(nil, &dlpack.Options{Type: dlpack.Float16}), cu.ErrorInvalidValue, "uint8 cannot be float16")
	gputest.WantError(t, export(nil, &dlpack.Options{Type: 18 | 8<<8 | 1<<16}), cu.ErrorInvalidValue, "uint8 cannot be type code 18", "one of the constants")
	if n := dlpack.Held(); n != 0 {
		t.Errorf("%d tensors are left", n)
	}
	before := d.frees.Load()
	gputest.CloseAll(t, h, pairs)
	if n := d.frees.Load() - before; n != 2 {
		t.Errorf("%d of 2 buffers were freed at once: an error holds one", n)
	}
}

// TestExportOutlivesClose: the buffer is closed at once while the library has the tensor, whose
// memory stays, and is freed when its deleter has run, on a thread of the library.
func TestExportOutlivesClose(t *testing.T) {
	p := loadPeer(t)
	g, d := openTest(t)
	r := newRig(t, g)
	for _, k := range ownKinds {
		if k.place == onCUDA {
			continue // the library cannot look at it
		}
		b := must(k.alloc(g, 1000))(t)
		r.fill(b)
		x, y := must(dlpack.Export(b, nil, nil))(t), must(dlpack.Export(b, nil, nil))(t)
		before := d.frees.Load()
		check(t, b.Close())
		gputest.WantError(t, ferry.Copy(r.s, b, ferry.Pageable(make([]float32, 1000))), ferry.ErrClosed)
		_, err := dlpack.Export(b, nil, nil)
		gputest.WantError(t, err, ferry.ErrClosed)
		if n := d.frees.Load() - before; n != 0 {
			t.Fatalf("%s: freed while the library has it", k.name)
		}
		p.work(x, 2, 1)
		p.deleteElsewhere(t, x)
		if n := d.frees.Load() - before; n != 0 {
			t.Fatalf("%s: freed while the library has another tensor of it", k.name)
		}
		p.work(y, 1, 4)
		p.deleteElsewhere(t, y)
		eventually(t, "freed", func() bool { return d.frees.Load()-before == 1 })
	}
	if n := dlpack.Held(); n != 0 {
		t.Errorf("%d tensors are left", n)
	}
}

// TestExportWaits: Export waits for work in flight that writes the memory, and a read-only one not
// for work that reads it. The deleter does not wait, and the buffer is freed after its work.
func TestExportWaits(t *testing.T) {
	p := loadPeer(t)
	g, d := openTest(t)
	r := newRig(t, g)
	h, on := must(ferry.AllocHost[float32](g, 100, nil))(t), must(ferry.Alloc[float32](g, 100))(t)
	x := must(dlpack.Export(h, nil, nil))(t)
	type result struct {
		x   dlpack.Tensor
		err error
	}
	gate, exported := make(chan struct{}), make(chan result)
	check(t, r.s.HostFunc(func() { <-gate }))
	check(t, ferry.Copy(r.s, on, h)) // reads h
	readOnly := must(dlpack.Export(h, nil, &dlpack.Options{ReadOnly: true}))(t)
	before := d.frees.Load()
	go func() {
		x, err := dlpack.Export(h, nil, nil)
		exported <- result{x, err}
	}()
	select {
	case <-exported:
		t.Fatal("Export did not wait for work in flight")
	case <-time.After(20 * time.Millisecond):
	}
	close(gate)
	late := <-exported
	check(t, late.err)
	all := []dlpack.Tensor{x, readOnly, late.x}
	gate = make(chan struct{})
	check(t, r.s.HostFunc(func() { <-gate }))
	check(t, ferry.Copy(r.s, h, on))
	check(t, h.Close()) // the tensors hold it, so it does not wait
	for _, x := range all {
		p.deleteElsewhere(t, x) // must not wait either
	}
	if n := d.frees.Load() - before; n != 0 {
		t.Error("freed under a copy")
	}
	close(gate)
	eventually(t, "freed", func() bool { return d.frees.Load()-before == 1 })
	check(t, on.Close())
}

// TestExportDeletedAtOnce: many threads of C delete many tensors of one closed buffer at once. It is
// freed once.
func TestExportDeletedAtOnce(t *testing.T) {
	p := loadPeer(t)
	g, d := openTest(t)
	for range 20 {
		h := must(ferry.AllocHost[float32](g, 100, nil))(t)
		all := make([]dlpack.Tensor, 64)
		for i := range all {
			all[i] = must(dlpack.Export(h, nil, nil))(t)
		}
		before := d.frees.Load()
		check(t, h.Close())
		if failed := p.deleteOnThreads(all); failed != 0 {
			t.Fatalf("pthread: error %d", failed)
		}
		eventually(t, "freed", func() bool { return d.frees.Load()-before == 1 })
	}
	if n := dlpack.Held(); n != 0 {
		t.Errorf("%d tensors are left", n)
	}
}

// TestExportDeletedUnderWork: a library calls the deleter while its work is queued in a stream of its
// own. The memory is not freed, and goes to nobody else, before that work is done, whether the buffer
// was closed before the deleter or after it, and also where the driver does not wait.
func TestExportDeletedUnderWork(t *testing.T) {
	g, d := openTest(t)
	pinned := must(ferry.NewPinnedPool(g, nil))(t)
	s := must(ferry.NewStream(g, nil))(t)
	foreign := must(d.StreamCreate(g.CUContext(), cu.StreamNonBlocking))(t)
	kinds := map[string]func() (held, error){
		"in stream order": func() (held, error) { return ferry.AllocAsync[float32](s, 1000, nil) },
		"of a pool": func() (held, error) {
			h := new(ferry.Host[float32])
			return h, h.Alloc(pinned, 1000)
		},
		"virtual": func() (held, error) { return ferry.AllocVirtual[float32](g, 1000, nil) },
		"wrapped": func() (held, error) {
			p, err := d.MemAlloc(g.CUContext(), 4000)
			if err != nil {
				return nil, err
			}
			return ferry.WrapDevice[float32](g, p, 1000, func() error { return d.MemFree(g.CUContext(), p) })
		},
	}
	for name, alloc := range kinds {
		for _, closedFirst := range []bool{true, false} {
			b := must(alloc())(t)
			x := must(dlpack.Export(b, nil, nil))(t)
			before, gate := d.frees.Load(), make(chan struct{})
			check(t, d.LaunchHostFunc(g.CUContext(), foreign, func() { <-gate }))
			if closedFirst {
				check(t, b.Close())
				x.Delete()
			} else {
				x.Delete()
				check(t, b.Close())
			}
			freed := func() bool { return d.frees.Load() != before }
			if name == "of a pool" { // it goes back to the pool, which would give it to the next
				freed = func() bool { return must(pinned.Stats())(t).Used == 0 }
			}
			time.Sleep(20 * time.Millisecond)
			if freed() {
				t.Errorf("%s, closed first %t: freed under the work of the library", name, closedFirst)
			}
			close(gate)
			eventually(t, name+" freed", freed)
		}
	}
	check(t, errors.Join(d.StreamDestroy(g.CUContext(), foreign), s.Close(), pinned.Close()))
}

// TestExportGPUCloses: the GPU is closed while the library has a tensor. The last deleter releases
// its context.
func TestExportGPUCloses(t *testing.T) {
	p := loadPeer(t)
	g, d := openTest(t)
	h := must(ferry.AllocHost[float32](g, 100, nil))(t)
	x := must(dlpack.Export(h, nil, nil))(t)
	before := d.frees.Load()
	check(t, errors.Join(h.Close(), g.Close()))
	p.work(x, 1, 1)
	p.deleteElsewhere(t, x)
	eventually(t, "freed", func() bool { return d.frees.Load()-before == 1 })
}

// TestExportAgainAndAgain: 10,000 tensors leave nothing behind, also not in C's heap.
func TestExportAgainAndAgain(t *testing.T) {
	p := loadPeer(t)
	g, _ := openTest(t)
	h := must(ferry.AllocHost[float32](g, 12, nil))(t)
	clear(h.Slice())
	shape := []int{3, 4}
	for len(shape) < 64 { // 1.1 KiB each
		shape = append(shape, 1)
	}
	before := p.heapInUse()
	for i := range 10000 {
		x := must(dlpack.Export(h, shape, nil))(t)
		p.work(x, 1, 1)
		if i%10 == 0 {
			p.deleteElsewhere(t, x)
		} else {
			x.Delete()
		}
	}
	if n := dlpack.Held(); n != 0 {
		t.Errorf("%d tensors are left", n)
	}
	if grown := p.heapInUse() - before; grown > 1<<20 {
		t.Errorf("C's heap has grown by %d bytes", grown)
	}
	wantNumbers(t, "the sum of the rounds", h.Slice(), 0, 10000)
	check(t, h.Close())
}

// TestStrings: what tensors and types say of themselves.
func TestStrings(t *testing.T) {
	p := loadPeer(t)
	g, _ := openTest(t)
	h := must(ferry.AllocHost[float32](g, 12, nil))(t)
	x := must(dlpack.Export(h, []int{3, 4}, &dlpack.Options{ReadOnly: true}))(t)
	for _, c := range []struct{ got, want string }{
		{x.String(), "float32 (3, 4) on the CPU, page-locked for CUDA, read-only"},
		{dlpack.Tensor(0).String(), "no tensor given (NULL) (CUDA_ERROR_INVALID_VALUE)"},
		{p.with(p.withDims(x, [2]int{4, 1}), fieldDeviceType, onCUDA).String(), "float32 (4,) on CUDA device 0, read-only"},
		{p.withDims(p.with(x, fieldDeviceType, 77), [2]int{2, 6}, [2]int{3, 1}).String(), "float32 (2, 3) with strides (6, 1) on device 0 of type 77, which DLPack 1.3 does not have, read-only"},
		{dlpack.BFloat16.String(), "bfloat16"}, {dlpack.Bool.String(), "bool"}, {dlpack.Float8E4M3FN.String(), "float8_e4m3fn"}, {dlpack.Complex32.String(), "complex32"},
		{dlpack.Type(1 | 8<<8 | 4<<16).String(), "uint8x4"}, {dlpack.Type(3 | 64<<8 | 1<<16).String(), "a handle"}, {dlpack.Type(99 | 7<<8 | 1<<16).String(), "type code 99 with 7 bits"},
		{fmt.Sprint(must(x.Type())(t)), "float32"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if _, err := p.with(x, fieldMajor, 2).Type(); err == nil || !strings.Contains(err.Error(), "DLPack 2.3") {
		t.Errorf("type of another version: %v", err)
	}
	x.Delete()
	dlpack.Tensor(0).Delete()
	check(t, h.Close())
}
