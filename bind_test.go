package ferry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// addParams are the parameters of the kernel vector_add.
var addParams = []ferry.BoundParam{
	{Name: "a", Type: "const float *", Size: 8, Reads: true},
	{Name: "b", Type: "const float *", Size: 8, Reads: true},
	{Name: "c", Type: "float *", Size: 8},
	{Name: "n", Type: "unsigned long", Size: 8},
}

// TestBindAccess: a launch of a bound kernel only reads what its pointers to const point to.
// Nobody waits for it to read that memory, and memory registered with ReadOnly is no result.
func TestBindAccess(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	code := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	defer closeAll(t, s, code)
	add := must(code.Bind("vector_add", addParams...))(t)
	const n = 1000
	mapped := &ferry.HostOptions{Mapped: true}
	a, c := must(ferry.AllocHost[float32](g, n, mapped))(t), must(ferry.AllocHost[float32](g, n, mapped))(t)
	defer closeAll(t, a, c)
	for i := range a.Slice() {
		a.Slice()[i] = float32(i)
	}
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	var batch ferry.Batch
	for name, launch := range map[string]func() error{
		"stream": func() error { return add.Launch(s, ferry.Grid(n, 256), a, a, c, uint64(n)) },
		"batch": func() error {
			batch.Reset()
			return errors.Join(add.Launch(&batch, ferry.Grid(n, 256), a, a, c, uint64(n)), s.Submit(&batch))
		},
		"replay": func() error { return s.Submit(&batch) },
	} {
		if name == "replay" {
			batch.Reset()
			check(t, add.Launch(&batch, ferry.Grid(n, 256), a, a, c, uint64(n)))
			check(t, s.Submit(&batch))
		}
		release := make(chan bool)
		check(t, s.HostFunc(func() { <-release }))
		check(t, launch())
		if _, err := a.ReadSliceContext(expired); err != nil {
			t.Errorf("%s: reading an argument that the kernel only reads: %v", name, err)
		}
		if _, err := a.SliceContext(expired); err == nil {
			t.Errorf("%s: an argument can be changed while the kernel reads it", name)
		}
		if _, err := c.ReadSliceContext(expired); err == nil {
			t.Errorf("%s: a result can be read before the kernel is done", name)
		}
		close(release)
		if got := c.ReadSlice(); got[7] != 14 {
			t.Errorf("%s: 7+7 is %v", name, got[7])
		}
	}
}

// TestBindReadOnly: memory that the GPU may only read is an argument for a pointer to const.
func TestBindReadOnly(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	code := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	defer closeAll(t, s, code)
	add := must(code.Bind("vector_add", addParams...))(t)
	const n = 1000
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i)
	}
	fixed, err := ferry.Register(g, data, &ferry.RegisterOptions{Mapped: true, ReadOnly: true})
	if errors.Is(err, cu.ErrorNotSupported) {
		t.Skip(err)
	}
	check(t, err)
	d := must(ferry.Alloc[float32](g, n))(t)
	defer closeAll(t, fixed, d)
	check(t, add.Launch(s, ferry.Grid(n, 256), fixed, fixed.Range(0, n), d, uint64(n)))
	if got := must(ferry.Download(d))(t); !slices.Equal(got[:3], []float32{0, 2, 4}) {
		t.Errorf("sums %v", got[:3])
	}
	err = add.Launch(s, ferry.Grid(n, 256), d, d, fixed, uint64(n))
	if err == nil || !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "parameter 2") || !strings.Contains(err.Error(), "ReadOnly") {
		t.Errorf("a kernel writes to memory registered with ReadOnly: %v", err)
	}
}

// TestBindRefuses: parameters that differ from those of the module are named.
func TestBindRefuses(t *testing.T) {
	g := openTest(t)
	code := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	defer closeAll(t, code)
	wrong := slices.Clone(addParams)
	wrong[3] = ferry.BoundParam{Name: "n", Type: "int", Size: 4}
	for _, c := range []struct {
		name   string
		params []ferry.BoundParam
		want   string
	}{
		{"vector_add", wrong, `argument 4 (n) is int, 4 bytes, in the Go code and 8 bytes in the module`},
		{"vector_add", addParams[:3], `3 parameters in the Go code and 4 in the module`},
		{"vector_add", nil, `0 parameters in the Go code`},
		{"vector_sub", addParams, `find kernel "vector_sub"`},
	} {
		if _, err := code.Bind(c.name, c.params...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	add := must(code.Bind("vector_add", addParams...))(t)
	if err := add.Launch(nil, ferry.Grid(1, 1)); err == nil || !strings.Contains(err.Error(), "no stream or batch given") {
		t.Errorf("launch on nothing: %v", err)
	}
	if err := (*ferry.Kernel)(nil).Launch(&ferry.Batch{}, ferry.Grid(1, 1)); err == nil {
		t.Error("a nil kernel can be launched")
	}
}

// TestBindAllocates: Launch of a kernel allocates nothing, with numbers among the arguments.
func TestBindAllocates(t *testing.T) {
	if raceEnabled || checked() {
		t.Skip("the race detector and FERRY_CHECK allocate")
	}
	c := newCallFixture(t, openDriver(t, newFake()), 4096)
	var b ferry.Batch
	n := uint64(1 << 40)
	for name, f := range map[string]func() error{
		"stream": func() error { n++; return launchOn(c.stream, c.add, c.floats, n) },
		"batch":  func() error { n++; b.Reset(); return launchOn(&b, c.add, c.floats, n) },
	} {
		if got := testing.AllocsPerRun(1000, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%s: Launch allocates %v times, want 0", name, got)
		}
	}
}

// launchOn launches as generated code does.
//
//go:noinline
func launchOn(q ferry.Queue, k *ferry.Kernel, x ferry.Memory[float32], n uint64) error {
	return k.Launch(q, ferry.Grid(1000, 256), x, x, x, n)
}
