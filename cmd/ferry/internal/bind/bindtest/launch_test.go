package bindtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/bind"
	"github.com/ferrygpu/ferry/cu"
)

// must returns a function that fails the test if there is an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open returns the kernels on the software GPU, and on real hardware if FERRY_REQUIRE_GPU
// asks for it.
func open(t *testing.T) (*ferry.GPU, *ferry.Stream, *Kernels) {
	t.Helper()
	device := "soft"
	if os.Getenv("FERRY_REQUIRE_GPU") != "" {
		device = "cuda"
	}
	g := must(ferry.Open(device))(t)
	s := must(ferry.NewStream(g, nil))(t)
	k := must(LoadKernels(g))(t)
	t.Cleanup(func() { check(t, errors.Join(k.Close(), s.Close(), g.Close())) })
	return g, s, k
}

// upload returns a buffer with values. The test closes it.
func upload[T any](t *testing.T, g *ferry.GPU, values []T) *ferry.Device[T] {
	t.Helper()
	d := must(ferry.Upload(g, values))(t)
	t.Cleanup(func() { check(t, d.Close()) })
	return d
}

// TestSaxpy launches on a stream and in a batch, with memory of all kinds.
func TestSaxpy(t *testing.T) {
	g, s, k := open(t)
	const n = 1000
	x := must(ferry.AllocHost[float32](g, n, &ferry.HostOptions{Mapped: true}))(t)
	y := must(ferry.AllocManaged[float32](g, n, nil))(t)
	defer func() { check(t, errors.Join(x.Close(), y.Close())) }()
	for i := range n {
		x.Slice()[i], y.Slice()[i] = float32(i), 1
	}
	check(t, k.Saxpy(s, ferry.Cover(n, 256), n, 2, x, y))
	var b ferry.Batch
	check(t, k.Saxpy(&b, ferry.Cover(n, 256), n/2, 3, x.Range(n/2, n), y.Range(0, n/2)))
	check(t, s.Submit(&b))
	check(t, s.Wait(context.Background()))
	for i, got := range y.Slice() {
		want := 1 + 2*float32(i)
		if i < n/2 {
			want += 3 * float32(i+n/2)
		}
		if got != want {
			t.Fatalf("element %d is %v, want %v", i, got, want)
		}
	}
}

// TestViews: views of bytes are arguments, with the element types of the kernel's source.
func TestViews(t *testing.T) {
	g, s, k := open(t)
	const n = 100
	frame := must(ferry.AllocHost[byte](g, 4*n, &ferry.HostOptions{Mapped: true}))(t)
	device := upload(t, g, make([]byte, 4*n))
	defer func() { check(t, frame.Close()) }()
	x, y := ferry.View[float32](frame), ferry.View[float32](device)
	for i := range n {
		x.Slice()[i] = float32(i)
	}
	check(t, k.Saxpy(s, ferry.Cover(n, 32), n, 3, x, y))
	check(t, k.Saxpy(s, ferry.Cover(n, 32), n/2, 1, x.Range(n/2, n), y.Range(0, n/2)))
	for i, got := range must(ferry.Download(y))(t) {
		want := 3 * float32(i)
		if i < n/2 {
			want += float32(i + n/2)
		}
		if got != want {
			t.Fatalf("element %d is %v, want %v", i, got, want)
		}
	}
	if err := k.Saxpy(s, ferry.Cover(n, 32), n, 3, ferry.View[float32](device.Range(1, 5)), y); !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "alignment") {
		t.Errorf("a view at an odd address: %v", err)
	}
}

// TestScalars: arguments of all kinds arrive, and a structure has the layout of C.
func TestScalars(t *testing.T) {
	g, s, k := open(t)
	out := upload(t, g, make([]Scalars, 1))
	want := Scalars{Flag: 1, Small: -3, Byte: 250, HalfWord: -30000, Word: 60000, Number: -2e9, Bits: 4e9, Wide: -9e18, Count: 18e18, Value: 0.1, Mode: 7}
	check(t, k.Scalars(s, ferry.Cover(1, 1), want.Flag == 1, want.Small, want.Byte, want.HalfWord, want.Word, want.Number, want.Bits, want.Wide, want.Count, want.Value, want.Mode, out))
	if got := must(ferry.Download(out))(t)[0]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestFilter: a structure with structures, arrays, gaps and an address is an argument.
func TestFilter(t *testing.T) {
	g, s, k := open(t)
	const n = 6
	from := make([][4]float32, n)
	for i := range from {
		from[i] = [4]float32{float32(i), float32(i) + 0.25, float32(i) + 0.5, float32(i) + 0.75}
	}
	to, sums := upload(t, g, make([][4]float32, n)), upload(t, g, make([][3]float32, n))
	histogram := upload(t, g, make([]uint32, n))
	f := Filter{Size: Size{3, 2}, Enabled: true, Weights: [3]float32{2, 3, 4}, Offset: Offset{10, 20, 30}, Gain: 0.5, Histogram: histogram.Pointer(), Tag: 77}
	check(t, k.Filter(s, ferry.Cover(n, 32), f, upload(t, g, from), to, sums))
	check(t, s.Wait(context.Background()))
	gotTo, gotSums, gotTags := must(ferry.Download(to))(t), must(ferry.Download(sums))(t), must(ferry.Download(histogram))(t)
	for i, p := range from {
		if want := [4]float32{p[0]*2 + 10, p[1]*3 + 20, p[2]*4 + 30, p[3] * 0.5}; gotTo[i] != want {
			t.Errorf("pixel %d is %v, want %v", i, gotTo[i], want)
		}
		if want := [3]float32{p[0], p[1], p[2]}; gotSums[i] != want || gotTags[i] != 77 {
			t.Errorf("pixel %d: sums %v, tag %d; want %v", i, gotSums[i], gotTags[i], want)
		}
	}
}

// TestOthers: instances of a template, a kernel of a macro, types that are not known, and a
// kernel without arguments.
func TestOthers(t *testing.T) {
	g, s, k := open(t)
	x, d, out := upload(t, g, []float32{1, 2, 3}), upload(t, g, []float64{1, 2, 3}), upload(t, g, make([]float32, 3))
	check(t, k.ScaleFloat1(s, ferry.Cover(3, 32), x, 3, 3))
	check(t, k.ScaleDouble2(s, ferry.Cover(1, 1), d, 3, 3))
	check(t, k.Blur3(s, ferry.Cover(3, 32), x, out, 3))
	if got := must(ferry.Download(d))(t); got[0] != 3 || got[1] != 2 || got[2] != 9 {
		t.Errorf("scaled %v", got)
	}
	if got := must(ferry.Download(out))(t); got[1] != 6 {
		t.Errorf("blurred %v", got)
	}
	words, flags := upload(t, g, make([]uint32, 1)), upload(t, g, make([]uint32, 2))
	check(t, k.Untyped(s, ferry.Cover(1, 1), words.Pointer(), 0, [4]byte{0x17}, 100, 2.5, flags))
	check(t, k.Nothing(s, ferry.Cover(1, 1)))
	check(t, s.Wait(context.Background()))
	if got := must(ferry.Download(words))(t); got[0] != 107 {
		t.Errorf("the bit field and the number are %v, want 107", got)
	}
	if got := must(ferry.Download(flags))(t); got[0] != 1 || got[1] != 2 {
		t.Errorf("flags %v", got)
	}
	empty := upload(t, g, []uint32{})
	if empty.Pointer() != 0 {
		t.Error("an empty buffer is no null pointer")
	}
	check(t, k.Untyped(s, ferry.Cover(1, 1), words.Pointer(), cu.DevicePtr(0), [4]byte{}, 0, 0, flags.Range(0, 2)))
}

// TestAllocates: a launch by a method allocates nothing.
func TestAllocates(t *testing.T) {
	g, s, k := open(t)
	x := upload(t, g, make([]float32, 8))
	var b ferry.Batch
	f := Filter{}
	c := ferry.Cover(1, 1)
	pixels, sums := upload(t, g, make([][4]float32, 1)), upload(t, g, make([][3]float32, 1))
	launch := func(q ferry.Queue) {
		f.Gain++
		if err := errors.Join(k.Saxpy(q, c, 8, float32(f.Gain), x, x), k.Filter(q, c, f, pixels, pixels, sums)); err != nil {
			t.Fatal(err)
		}
	}
	if got := testing.AllocsPerRun(100, func() { b.Reset(); launch(&b) }); got != 0 {
		t.Errorf("in a batch: %v allocations, want 0", got)
	}
	check(t, s.Wait(context.Background()))
}

// TestChangedPTX: PTX whose kernel has other parameters than the Go code is refused by name.
func TestChangedPTX(t *testing.T) {
	g, _, _ := open(t)
	changed := bytes.Replace(kernelsPTX, []byte(".param .f32 saxpy_param_1"), []byte(".param .f64 saxpy_param_1"), 1)
	changed = bytes.Replace(changed, []byte("ld.param.f32 \t%f1, [saxpy_param_1]"), []byte("mov.f32 %f1, 0f00000000"), 1)
	if bytes.Equal(changed, kernelsPTX) {
		t.Fatal("nothing was changed")
	}
	m := must(ferry.Load(g, changed, nil))(t)
	defer m.Close()
	if _, err := BindKernels(m); err == nil || !strings.Contains(err.Error(), `bind kernel "saxpy": argument 2 (a) is float, 4 bytes, in the Go code and 8 bytes in the module`) {
		t.Errorf("got %v", err)
	}
}

// TestCheck: the files are those that ferry bind makes.
func TestCheck(t *testing.T) {
	check(t, bind.Check(context.Background(), &bind.Options{Source: "kernels.cu"}))
}

// TestWrongTypes: Go does not compile a launch with arguments of other types.
func TestWrongTypes(t *testing.T) {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here: ", err)
	}
	dir := must(os.Getwd())(t)
	for args, want := range map[string]string{
		"1, 2, f32, f32": "",
		"1, 2, f64, f32": "cannot use f64",
		"1, 2, f32, f64": "cannot use f64",
		"1, x, f32, f32": "cannot use x",
		"1, 2, f32":      "not enough arguments",
		"f32, 1, 2, f32": "cannot use f32",
		"1, 2, s, f32":   "cannot use s ",
	} {
		file := filepath.Join(t.TempDir(), "use.go")
		check(t, os.WriteFile(file, []byte(`package bindtest
import "github.com/ferrygpu/ferry"
func use(k *Kernels, q ferry.Queue, c ferry.LaunchConfig, f32 *ferry.Device[float32], f64 *ferry.Device[float64], x float64, s []float32) error {
	return k.Saxpy(q, c, `+args+`)
}`), 0o644))
		overlay := filepath.Join(t.TempDir(), "overlay.json")
		text := must(json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(dir, "use.go"): file}}))(t)
		check(t, os.WriteFile(overlay, text, 0o644))
		out, err := exec.Command(goCommand, "build", "-overlay", overlay, ".").CombinedOutput()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(string(out), want)) {
			t.Errorf("Saxpy(%s): %v, %s; want %q", args, err, out, want)
		}
	}
}

// TestNotLoaded: kernels that were not loaded give an error, and Close does nothing.
func TestNotLoaded(t *testing.T) {
	_, s, _ := open(t)
	for _, k := range []*Kernels{nil, {}} {
		if err := k.Nothing(s, ferry.Cover(1, 1)); !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("launch: %v", err)
		}
		var b ferry.Batch
		if err := k.Nothing(&b, ferry.Cover(1, 1)); !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("launch in a batch: %v", err)
		}
		if m, err := k.Module(), k.Close(); m != nil || err != nil {
			t.Errorf("module %v, error %v", m, err)
		}
	}
}
