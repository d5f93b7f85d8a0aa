package checkpoint_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
)

// layers returns tensors as a model has them.
func layers(r *rand.Rand) (all []tensor) {
	for i := range 4 {
		all = append(all, random(r, fmt.Sprintf("model.layers.%d.mlp.weight", i), checkpoint.BF16, 20, 30), random(r, fmt.Sprintf("model.layers.%d.norm/x", i), checkpoint.F32, 3))
	}
	return append(all, random(r, "head[0]", checkpoint.U8, 5))
}

// TestSelect selects tensors by patterns and by a function.
func TestSelect(t *testing.T) {
	tensors := layers(rand.New(rand.NewPCG(1, 2)))
	c := open(t, write(t, "a.safetensors", safetensorsOf(nil, tensors...)))
	s := stream(t, 0)
	for _, x := range []struct {
		patterns []string
		choose   func(checkpoint.Info) bool
		want     []int
	}{
		{nil, nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		{[]string{"model.layers.3.norm/x", "*.1.*", "model.layers.0.mlp.weight"}, nil, []int{0, 2, 3, 7}},
		{[]string{"*"}, nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		{[]string{"*.weight"}, nil, []int{0, 2, 4, 6}},
		{[]string{"model.layers.?.norm*"}, nil, []int{1, 3, 5, 7}},
		{[]string{"model*x"}, nil, []int{1, 3, 5, 7}},
		{[]string{"model.layers.[12].*", `head\[0\]`}, nil, []int{2, 3, 4, 5, 8}},
		{[]string{"head[0]"}, nil, []int{8}},
		{nil, func(i checkpoint.Info) bool { return i.DType == checkpoint.F32 }, []int{1, 3, 5, 7}},
		{[]string{"*.0.*", "*.0.mlp.weight"}, func(i checkpoint.Info) bool { return i.DType == checkpoint.F32 }, []int{1}},
	} {
		var want []tensor
		for _, i := range x.want {
			want = append(want, tensors[i])
		}
		loaded(t, load(t, s, c, &checkpoint.Options{Tensors: x.patterns, Select: x.choose}), want)
	}
}

// TestWrongOptions loads with options that are refused.
func TestWrongOptions(t *testing.T) {
	tensors := layers(rand.New(rand.NewPCG(1, 2)))
	path := write(t, "a.safetensors", safetensorsOf(nil, tensors...))
	c, s := open(t, path), stream(t, 0)
	small, err := ferry.Alloc[byte](s.GPU(), 4)
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	into := func(name string, m ferry.Memory[byte]) checkpoint.Options {
		return checkpoint.Options{Into: map[string]ferry.Memory[byte]{name: m}}
	}
	for want, o := range map[string]checkpoint.Options{
		`no tensor "model.layers.9.mlp.weight" in checkpoint ` + path: {Tensors: []string{"*", "model.layers.9.mlp.weight"}},
		`did you mean "model.layers.`:                                 {Tensors: []string{"model.layers.9.mlp.weight"}},
		`no tensor "\x1b" in`:                                         {Tensors: []string{"\x1b"}},
		`the pattern "[" is wrong: syntax error in pattern`:           {Tensors: []string{"["}},
		`Select wants none of the 9 tensors`:                          {Select: func(checkpoint.Info) bool { return false }},
		`the alignment is 3: it must be a power of two`:               {Align: 3},
		`the alignment is -256`:                                       {Align: -256},
		`Into has no memory (nil) for tensor "head[0]"`:               into("head[0]", nil),
		`for tensor "head[0]", which has 5 as U8: use a range`:        into("head[0]", small),
		`no tensor "x" in`:                                            {Into: map[string]ferry.Memory[byte]{"x": small, "y": small, "z": small}},
		`Into has memory for tensor "head[0]", which is not selected`: {Tensors: []string{"model*"}, Into: map[string]ferry.Memory[byte]{"head[0]": small}},
		`Direct is 3`:       {Direct: 3},
		`no tensor "a" in`:  {Tensors: []string{"head*", "a", "b"}},
		`no tensor "y*" in`: {Tensors: []string{"head*", "y*", "b"}},
	} {
		l, err := checkpoint.Load(t.Context(), s, c, &o)
		if l != nil || !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "load checkpoint: ") {
			t.Errorf("%v, %v, want %s", l, err, want)
		}
	}
	if l, err := checkpoint.Load(t.Context(), nil, c, nil); l != nil || err == nil {
		t.Errorf("without a stream: %v, %v", l, err)
	}
	if l, err := checkpoint.Load(t.Context(), s, nil, nil); l != nil || err == nil {
		t.Errorf("without a checkpoint: %v, %v", l, err)
	}
	closed, err := checkpoint.Open(path)
	if err != nil || closed.Close() != nil {
		t.Fatal(err)
	}
	if l, err := checkpoint.Load(t.Context(), s, closed, nil); l != nil || err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("a closed checkpoint: %v, %v", l, err)
	}
}

// TestPlaces demands that tensors stand at multiples of the alignment, one after another, and that
// given memory gets its tensor.
func TestPlaces(t *testing.T) {
	tensors := layers(rand.New(rand.NewPCG(1, 2)))
	c, s := open(t, write(t, "a.safetensors", safetensorsOf(nil, tensors...))), stream(t, 0)
	host, err := ferry.AllocHost[float32](s.GPU(), 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	pageable := make([]byte, 5)
	into := map[string]ferry.Memory[byte]{"model.layers.1.norm/x": host.Bytes(), "head[0]": ferry.Pageable(pageable)}
	for _, align := range []int{0, 1, 16, 4096} {
		l := load(t, s, c, &checkpoint.Options{Align: align, Into: into})
		loaded(t, l, tensors)
		base, end := l.Buffer().Pointer(), uint64(0)
		for _, p := range l.Tensors() {
			m, ok := p.Memory.(*ferry.Device[byte])
			if into[p.Name] != nil || !ok {
				continue
			}
			at, step := uint64(m.Pointer()-base), uint64(max(align, 1))
			if align == 0 {
				step = 256
			}
			if at != (end+step-1)/step*step {
				t.Errorf("align %d: %v stands at %d, after %d", align, p.Info, at, end)
			}
			end = at + uint64(m.Size())
		}
		if uint64(l.Bytes()) != end {
			t.Errorf("align %d: the buffer has %d bytes, want %d", align, l.Bytes(), end)
		}
	}
	if !bytes.Equal(pageable, tensors[8].data) {
		t.Errorf("the slice has %v", pageable)
	}
}

// TestHash compares the sums of tensors, with conversion and without.
func TestHash(t *testing.T) {
	checkpoint.SetPieces(t, 20<<10, 20<<10)
	r := rand.New(rand.NewPCG(1, 2))
	tensors := []tensor{random(r, "a", checkpoint.BF16, 128*313), random(r, "b", checkpoint.BF16, 128), random(r, "c", checkpoint.I8, 7)}
	c, s := open(t, write(t, "a.safetensors", safetensorsOf(nil, tensors...))), stream(t, 0)
	for _, to := range []checkpoint.DType{checkpoint.NoDType, checkpoint.F16, checkpoint.F32} {
		l := load(t, s, c, &checkpoint.Options{To: to, Hash: func(i checkpoint.Info) hash.Hash {
			if i.Name == "b" {
				return nil
			}
			return sha256.New()
		}})
		for i, x := range tensors {
			want := sha256.Sum256(x.data)
			p, _ := l.Lookup(x.name)
			if i == 1 && p.Sum != nil || i != 1 && !bytes.Equal(p.Sum, want[:]) {
				t.Errorf("%v as %v: sum %x, want %x", p.Info, to, p.Sum, want)
			}
		}
	}
}

// TestViews sees tensors as elements of types that fit, and of types that do not.
func TestViews(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var tensors []tensor
	for d := range safetensorsTypes {
		tensors = append(tensors, random(r, d.String(), d, 8))
	}
	g := newGGUF()
	for d := range ggml {
		per, _ := d.Block()
		g.add(random(r, d.String(), d, 2*per))
	}
	s := stream(t, 0)
	l := load(t, s, open(t, write(t, "a.safetensors", safetensorsOf(nil, tensors...))), nil)
	q := load(t, s, open(t, write(t, "a.gguf", g.bytes())), nil)
	for _, x := range []struct {
		name string
		got  func() (int, error)
		want int
	}{
		{"F32", view[float32](l, "F32"), 8}, {"F32 as arrays", view[[4]float32](l, "F32"), 2}, {"F64", view[float64](l, "F64"), 8},
		{"BF16", view[uint16](l, "BF16"), 8}, {"F16", view[uint16](l, "F16"), 8}, {"F8_E4M3", view[uint8](l, "F8_E4M3"), 8}, {"BOOL", view[byte](l, "BOOL"), 8},
		{"I8", view[int8](l, "I8"), 8}, {"I64", view[int64](l, "I64"), 8}, {"U64", view[uint64](l, "U64"), 8}, {"C64", view[complex64](l, "C64"), 8},
		{"F4", view[byte](l, "F4"), 4}, {"F6_E2M3", view[[3]byte](l, "F6_E2M3"), 2}, {"F64 as bytes", view[byte](l, "F64"), 64},
		{"Q4_0", view[[18]byte](q, "Q4_0"), 2}, {"Q6_K", view[[210]byte](q, "Q6_K"), 2}, {"Q6_K as bytes", view[byte](q, "Q6_K"), 420},
		{"no tensor", view[byte](l, "x"), -1}, {"F32 as float64", view[float64](l, "F32"), -1}, {"F32 as uint32", view[uint32](l, "F32"), -1},
		{"BF16 as int16", view[int16](l, "BF16"), -1}, {"BF16 as float32", view[float32](l, "BF16"), -1}, {"I8 as a pointer", view[*int8](l, "I8"), -1},
		{"BOOL as bool", view[bool](l, "BOOL"), -1}, {"Q4_0 as other blocks", view[[17]byte](q, "Q4_0"), -1}, {"of nothing", view[byte](nil, "F32"), -1},
	} {
		n, err := x.got()
		if n != x.want || (err == nil) != (x.want >= 0) || err != nil && !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%s: %d elements, %v, want %d", x.name, n, err, x.want)
		}
	}
}

// view returns a function that returns the length of a view.
func view[T any](l *checkpoint.Loaded, name string) func() (int, error) {
	return func() (int, error) {
		v, err := checkpoint.Tensor[T](l, name)
		if err != nil {
			return -1, err
		}
		return v.Len(), nil
	}
}

// TestPlan compares plans with loads.
func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tensors := []tensor{random(r, "a", checkpoint.BF16, 1000), random(r, "gap", checkpoint.U8, 100_000), random(r, "b", checkpoint.BF16, 3), random(r, "c", checkpoint.F32, 5)}
	c, s := open(t, write(t, "a.safetensors", safetensorsOf(nil, tensors...))), stream(t, 0)
	for _, x := range []struct {
		o    checkpoint.Options
		want checkpoint.Plan
	}{
		{checkpoint.Options{}, checkpoint.Plan{Tensors: 4, ReadBytes: 102026, Reads: 1, DeviceBytes: 102420}},
		{checkpoint.Options{Tensors: []string{"[abc]"}}, checkpoint.Plan{Tensors: 3, ReadBytes: 2026, Reads: 2, DeviceBytes: 2324}},
		{checkpoint.Options{Tensors: []string{"[abc]"}, To: checkpoint.F32}, checkpoint.Plan{Tensors: 3, ReadBytes: 2026, Reads: 2, DeviceBytes: 4372, ExtraBytes: 2 * 2304}},
	} {
		p, err := c.Plan(s.GPU(), &x.o)
		if err != nil {
			t.Fatal(err)
		}
		l := load(t, s, c, &x.o)
		if !p.Fits || p.TotalBytes == 0 || p.FreeBytes == 0 || p.Predicted <= 0 || p.Profile != "h200" || l.Bytes() != p.DeviceBytes {
			t.Errorf("%+v, %v", p, l)
		}
		p.Fits, p.TotalBytes, p.FreeBytes, p.Predicted, p.Profile = false, 0, 0, 0, ""
		if *p != x.want {
			t.Errorf("%+v, want %+v", *p, x.want)
		}
	}
	if p, err := c.Plan(nil, nil); err != nil || p.TotalBytes != 0 || p.Tensors != 4 {
		t.Errorf("without a GPU: %v, %v", p, err)
	}
	const n = 1 << 50
	head := safetensors(fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, n, n), nil)
	big, err := checkpoint.OpenReaderAt("big", sparse{head, n + int64(len(head))}, n+int64(len(head)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := big.Plan(s.GPU(), nil)
	if err != nil || p.Fits {
		t.Errorf("2^50 bytes: %v, %v", p, err)
	}
	if l, err := checkpoint.Load(t.Context(), s, big, nil); l != nil || !errors.Is(err, cu.ErrorOutOfMemory) {
		t.Errorf("2^50 bytes: %v, %v", l, err)
	}
}

// ranges is a reader that remembers what was read.
type ranges struct {
	io.ReaderAt
	mu  sync.Mutex
	all [][2]int64 // from one byte up to another
}

func (r *ranges) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	r.all = append(r.all, [2]int64{off, off + int64(len(p))})
	r.mu.Unlock()
	return r.ReaderAt.ReadAt(p, off)
}

// TestReads compares Plan.Reads with what Load reads, for gaps of sizes about the largest that is read.
func TestReads(t *testing.T) {
	s, seen := stream(t, 0), map[int]bool{}
	for gap := 60 << 10; gap < 72<<10; gap += 509 {
		file := safetensorsOf(nil, tensor{"a", checkpoint.U8, []int64{700}, make([]byte, 700)}, tensor{"gap", checkpoint.U8, []int64{int64(gap)}, make([]byte, gap)},
			tensor{"b", checkpoint.U8, []int64{9}, make([]byte, 9)})
		r := &ranges{ReaderAt: bytes.NewReader(file)}
		c, err := checkpoint.OpenReaderAt("m", r, int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		r.all = nil
		o := &checkpoint.Options{Tensors: []string{"a", "b"}}
		load(t, s, c, o)
		slices.SortFunc(r.all, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
		reads, end := 0, int64(-1)
		for _, x := range r.all {
			if x[0] != end {
				reads++
			}
			end = x[1]
		}
		p, err := c.Plan(nil, o)
		if err != nil || p.Reads != reads {
			t.Errorf("gap of %d bytes: %v, %v, but %d reads", gap, p, err, reads)
		}
		seen[reads] = true
	}
	if !seen[1] || !seen[2] {
		t.Errorf("reads without a break: %v, want 1 and 2", seen)
	}
}

// TestOneTensor loads 8 KiB of a file of 16 GiB and demands that little more is read.
func TestOneTensor(t *testing.T) {
	const n = 8 << 30
	head := safetensors(fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]},"x":{"dtype":"U8","shape":[8192],"data_offsets":[%d,%d]},"b":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}}`,
		n, n, n, n+8192, n, n+8192, 2*n+8192), nil)
	r := &counter{ReaderAt: sparse{head, 2*n + 8192 + int64(len(head))}}
	c, err := checkpoint.OpenReaderAt("big", r, 2*n+8192+int64(len(head)))
	if err != nil {
		t.Fatal(err)
	}
	r.bytes.Store(0)
	loaded(t, load(t, stream(t, 0), c, &checkpoint.Options{Tensors: []string{"x"}}), []tensor{{"x", checkpoint.U8, []int64{8192}, make([]byte, 8192)}})
	if got := r.bytes.Load(); got > 8192+2*4096 {
		t.Errorf("%d bytes were read for 8192", got)
	}
}

// failing is a reader that calls a function before each read behind a byte.
type failing struct {
	io.ReaderAt
	from int64
	on   atomic.Bool
	f    func() error
}

func (r *failing) ReadAt(p []byte, off int64) (int, error) {
	if r.on.Load() && off+int64(len(p)) > r.from {
		if err := r.f(); err != nil {
			return 0, err
		}
	}
	return r.ReaderAt.ReadAt(p, off)
}

// TestReadFails loads from a reader that fails, with conversion and without.
func TestReadFails(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	file := safetensorsOf(nil, random(r, "a", checkpoint.BF16, 1<<18), random(r, "b", checkpoint.BF16, 1<<20))
	s := stream(t, 0)
	free := func() int {
		n, _, err := s.GPU().MemInfo()
		if err != nil || s.Wait(t.Context()) != nil {
			t.Fatal(err)
		}
		return n
	}
	readFails(t, s, file) // a pool keeps its first memory
	before := free()
	readFails(t, s, file)
	if after := free(); after != before {
		t.Errorf("%d bytes are free, %d were before", after, before)
	}
}

// readFails loads from a reader that fails, and from one that ends the context.
func readFails(t *testing.T, s *ferry.Stream, file []byte) {
	broken := errors.New("the disk is broken")
	for _, to := range []checkpoint.DType{checkpoint.NoDType, checkpoint.F16, checkpoint.F32} {
		reader := &failing{ReaderAt: bytes.NewReader(file), from: 1 << 21, f: func() error { return broken }}
		c, err := checkpoint.OpenReaderAt("m", reader, int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		reader.on.Store(true)
		l, err := checkpoint.Load(t.Context(), s, c, &checkpoint.Options{To: to})
		if l != nil || !errors.Is(err, broken) || !strings.Contains(err.Error(), `tensor "b", byte `) {
			t.Errorf("%v: %v, %v", to, l, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		reader.f = func() error { cancel(); <-ctx.Done(); return nil }
		if l, err := checkpoint.Load(ctx, s, c, &checkpoint.Options{To: to}); l != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v, %v", to, l, err)
		}
		cancel()
	}
}

// TestCloseWhileLoading closes the checkpoint in a function that Load calls.
func TestCloseWhileLoading(t *testing.T) {
	c, s := open(t, write(t, "a.safetensors", safetensorsOf(nil, layers(rand.New(rand.NewPCG(1, 2)))...))), stream(t, 0)
	var none context.Context // which never ends
	l, err := checkpoint.Load(none, s, c, &checkpoint.Options{Select: func(checkpoint.Info) bool { return c.Close() == nil }})
	if l != nil || !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "the checkpoint was closed") {
		t.Errorf("%v, %v", l, err)
	}
}

// TestUserPanics loads with functions that panic. No memory stays.
func TestUserPanics(t *testing.T) {
	x := tensor{"x", checkpoint.BF16, []int64{1 << 20}, make([]byte, 2<<20)}
	c, s := open(t, write(t, "a.safetensors", safetensorsOf(nil, x))), stream(t, 0)
	try := func(o checkpoint.Options) (free int) {
		defer func() {
			if recover() != "stop" {
				t.Error("no panic")
			}
			if err := s.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			free, _, _ = s.GPU().MemInfo()
		}()
		l, err := checkpoint.Load(t.Context(), s, c, &o)
		t.Errorf("%v, %v", l, err)
		return 0
	}
	for _, to := range []checkpoint.DType{checkpoint.NoDType, checkpoint.F16, checkpoint.F32} {
		for _, o := range []checkpoint.Options{
			{To: to, Select: func(checkpoint.Info) bool { panic("stop") }},
			{To: to, Hash: func(checkpoint.Info) hash.Hash { panic("stop") }},
			{To: to, Progress: func(int64, int64) { panic("stop") }},
		} {
			if before, after := try(o), try(o); before != after {
				t.Errorf("%v: %d bytes are free, %d before", to, after, before)
			}
		}
	}
}

// TestShrinks loads from a file that becomes shorter after Open.
func TestShrinks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	file := safetensorsOf(nil, random(r, "a", checkpoint.U8, 1<<16), random(r, "b", checkpoint.U8, 1<<20))
	path := write(t, "a.safetensors", file)
	for _, direct := range []checkpoint.Direct{checkpoint.DirectOff, checkpoint.DirectAuto} {
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		c, s := open(t, path), stream(t, 0)
		if err := os.Truncate(path, 1<<19); err != nil {
			t.Fatal(err)
		}
		b, _ := c.Lookup("b")
		l, err := checkpoint.Load(t.Context(), s, c, &checkpoint.Options{Direct: direct})
		want := fmt.Sprintf(`tensor "b", byte %d of 1048576: `, 1<<19-b.Offset)
		if l != nil || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %v, want %s", direct, l, err, want)
		}
		loaded(t, load(t, s, c, &checkpoint.Options{Tensors: []string{"a"}}), []tensor{{"a", checkpoint.U8, []int64{1 << 16}, file[b.Offset-1<<16 : b.Offset]}})
	}
}

// TestTwoGPUs loads tensors to two GPUs at once, with conversion and without. The file is read once.
func TestTwoGPUs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := tensor{"x", checkpoint.BF16, []int64{5000}, bits(checkpoint.BF16, indexes(r, 5000))}
	tensors := append(layers(r)[8:], x)
	file := safetensorsOf(nil, tensors...)
	all, err := ferry.OpenAll("soft:h200*2")
	if err != nil {
		t.Fatal(err)
	}
	defer all[0].Close()
	defer all[1].Close()
	s, err := ferry.NewStream(all[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, to := range []checkpoint.DType{checkpoint.NoDType, checkpoint.F16, checkpoint.F32} {
		reader := &counter{ReaderAt: bytes.NewReader(file)}
		c, err := checkpoint.OpenReaderAt("m", reader, int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		reader.bytes.Store(0)
		l := load(t, s, c, &checkpoint.Options{Also: all[1:], To: to})
		want := slices.Clone(tensors)
		if to != checkpoint.NoDType {
			want[1].data = bits(to, indexesOf(x.data))
		}
		loaded(t, l, want)
		loaded(t, l.On(all[1]), want)
		if l.On(all[0]) != l || l.On(all[1]).GPU() != all[1] || reader.bytes.Load() > int64(len(file))+8192 {
			t.Errorf("%v and %v, %d bytes read of %d", l, l.On(all[1]), reader.bytes.Load(), len(file))
		}
	}
}

// TestTwoGPUsInto loads to two GPUs, with memory for one tensor. It is not on the further GPU.
func TestTwoGPUsInto(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tensors := []tensor{random(r, "a", checkpoint.U8, 300), random(r, "given", checkpoint.U8, 100), random(r, "z", checkpoint.U8, 500)}
	c := open(t, write(t, "a.safetensors", safetensorsOf(nil, tensors...)))
	all, err := ferry.OpenAll("soft:h200*2")
	if err != nil {
		t.Fatal(err)
	}
	defer all[0].Close()
	defer all[1].Close()
	var streams []*ferry.Stream
	for _, g := range all {
		s, err := ferry.NewStream(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		streams = append(streams, s)
	}
	memory, err := ferry.Alloc[byte](all[0], 100)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	l := load(t, streams[0], c, &checkpoint.Options{
		Also: all[1:], Into: map[string]ferry.Memory[byte]{"given": memory}, Hash: func(checkpoint.Info) hash.Hash { return sha256.New() },
	})
	other := l.On(all[1])
	loaded(t, l, tensors)
	loaded(t, other, []tensor{tensors[0], tensors[2]})
	if view, err := checkpoint.Tensor[byte](other, "given"); view != nil || err == nil {
		t.Errorf("the further GPU has %v, %v", view, err)
	}
	if z, _ := other.Lookup("z"); len(z.Sum) != sha256.Size {
		t.Errorf("the sum of z on the further GPU is %x", z.Sum)
	}
	if err := checkpoint.Verify(t.Context(), streams[1], l, nil); err != nil {
		t.Error(err)
	}
}

// TestReadsOnce loads small tensors of two types with a conversion, of which one half goes through
// staging memory: each byte is read once, as the plan says.
func TestReadsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var tensors []tensor
	for i := range 200 {
		x := random(r, fmt.Sprintf("t%03d", i), checkpoint.I32, 1024)
		if i%2 == 1 {
			x = tensor{x.name, checkpoint.BF16, []int64{2048}, bits(checkpoint.BF16, indexes(r, 2048))}
		}
		tensors = append(tensors, x)
	}
	file := safetensorsOf(nil, tensors...)
	reader := &counter{ReaderAt: bytes.NewReader(file)}
	c, err := checkpoint.OpenReaderAt("m", reader, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	o := &checkpoint.Options{To: checkpoint.F32}
	p, err := c.Plan(nil, o)
	if err != nil || p.Reads != 1 {
		t.Errorf("%v, %v, want 1 read", p, err)
	}
	reader.bytes.Store(0)
	load(t, stream(t, 0), c, o)
	if n := reader.bytes.Load(); n > int64(len(file))+8192 {
		t.Errorf("%d bytes were read of %d", n, len(file))
	}
	checkpoint.SetPieces(t, 64<<10, 64<<10)
	if p, err := c.Plan(nil, o); err != nil || p.Reads != 7 { // 100 tensors of 4 KiB, 16 in each batch
		t.Errorf("%v, %v, want 7 reads", p, err)
	}
}

// indexesOf returns the indexes of numbers in BF16.
func indexesOf(data []byte) (all []int) {
	for i := 0; i < len(data); i += 2 {
		all = append(all, slices.IndexFunc(small, func(x struct {
			value    float32
			half     uint16
			e4m3, e5 byte
		}) bool {
			return bytes.Equal(bits(checkpoint.BF16, []int{slices.Index(small, x)}), data[i:i+2])
		}))
	}
	return all
}

// TestManyAtOnce loads one checkpoint from several goroutines.
func TestManyAtOnce(t *testing.T) {
	tensors := layers(rand.New(rand.NewPCG(1, 2)))
	c, g := open(t, write(t, "a.safetensors", safetensorsOf(nil, tensors...))), stream(t, 0).GPU()
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s, err := ferry.NewStream(g, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			loaded(t, load(t, s, c, &checkpoint.Options{Tensors: []string{fmt.Sprintf("*.%d.*", i%4)}}), tensors[i%4*2:][:2])
		})
	}
}

// TestThousandLoads loads again and again. No memory of the device stays, and no goroutine.
func TestThousandLoads(t *testing.T) {
	loads := 1000
	if testing.Short() {
		loads = 200
	}
	r := rand.New(rand.NewPCG(1, 2))
	c, s := open(t, write(t, "a.safetensors", safetensorsOf(nil, layers(r)...))), stream(t, 0)
	free, goroutines := 0, 0
	for i := range loads {
		l, err := checkpoint.Load(t.Context(), s, c, nil)
		if err != nil || s.Wait(t.Context()) != nil || l.Close() != nil {
			t.Fatal(i, err)
		}
		n, _, err := s.GPU().MemInfo()
		if err != nil {
			t.Fatal(err)
		}
		if i == 9 {
			free, goroutines = n, runtime.NumGoroutine()
		}
		if i > 9 && n != free {
			t.Fatalf("%d bytes are free after %d loads, %d after 10", n, i+1, free)
		}
	}
	noMoreGoroutines(t, goroutines)
}

// noMoreGoroutines waits until no more goroutines are left than before.
func noMoreGoroutines(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before && !racebuild.Instrumented; time.Sleep(time.Millisecond) { // there the software GPU keeps some
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left, %d were before", runtime.NumGoroutine(), before)
		}
	}
}

// TestLoadedNil uses tensors that were not loaded.
func TestLoadedNil(t *testing.T) {
	var l *checkpoint.Loaded
	if l.Close() != nil || l.Tensors() != nil || l.Bytes() != 0 || l.GPU() != nil || l.On(nil) != nil || l.Buffer() != nil || l.String() == "" {
		t.Error("nil has something")
	}
}
