package api

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ferrybind"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestLaunchMemory adds vectors in device, page-locked and registered memory.
func TestLaunchMemory(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	code, add := load(t, g, "vector_add")
	defer closeAll(t, s, code)
	const n = 10_007
	a, b := must(ferry.Alloc[float32](g, n))(t), must(ferry.AllocHost[float32](g, n, &ferry.HostOptions{Mapped: true}))(t)
	c := must(ferry.Register(g, make([]float32, n), &ferry.RegisterOptions{Mapped: true}))(t)
	defer closeAll(t, a, b, c)
	x := make([]float32, n)
	for i := range x {
		x[i], b.Slice()[i] = float32(i)/8, float32(n-i)*3
	}
	want := make([]float32, n)
	for i := range want {
		want[i] = x[i] + b.Slice()[i]
	}
	check(t, ferry.Copy(s, a, ferry.Pageable(x)))
	check(t, s.Launch(add, ferry.Cover(n, 256), a, b, c, uint64(n)))
	if !slices.Equal(c.Slice(), want) {
		t.Error("the sums differ")
	}
	if b.Pointer() == 0 || c.Pointer() == 0 || a.Pointer() == 0 || a.Range(1, n).Pointer() != a.Pointer()+4 {
		t.Error("addresses are missing or wrong")
	}
	check(t, s.Launch(add, ferry.LaunchConfig{Grid: cu.Dim3{X: 3}, Block: cu.Dim3{X: 64}}, a.Pointer(), c, a, uint64(n)))
	check(t, ferry.Copy(s, c, a))
	for i, got := range c.Slice() {
		if got != x[i]+want[i] {
			t.Fatalf("element %d is %v, want %v", i, got, x[i]+want[i])
		}
	}
}

// paramsPTX has a kernel that stores its parameters of several types in memory.
const paramsPTX = `.version 6.3
.target sm_52
.address_size 64
.visible .entry params(.param .u64 out, .param .u8 a, .param .s16 b, .param .f32 c, .param .f64 d, .param .align 4 .b8 e[12], .param .b32 f)
{
	.reg .b64 %rd<3>; .reg .b32 %r<6>; .reg .b16 %h<3>; .reg .f32 %f<2>; .reg .f64 %d<2>;
	ld.param.u64 %rd0, [out];
	cvta.to.global.u64 %rd1, %rd0;
	ld.param.u8 %h0, [a];  st.global.u8 [%rd1], %h0;
	ld.param.s16 %h1, [b]; st.global.u16 [%rd1+2], %h1;
	ld.param.f32 %f0, [c]; st.global.f32 [%rd1+4], %f0;
	ld.param.f64 %d0, [d]; st.global.f64 [%rd1+8], %d0;
	ld.param.u32 %r0, [e]; st.global.u32 [%rd1+16], %r0;
	ld.param.u32 %r1, [e+4]; st.global.u32 [%rd1+20], %r1;
	ld.param.u32 %r2, [e+8]; st.global.u32 [%rd1+24], %r2;
	ld.param.b32 %r3, [f]; st.global.u32 [%rd1+28], %r3;
	ret;
}
`

type (
	myByte uint8
	triple struct {
		A uint32
		B float32
		C [2]int16
	}
)

// paramsOut is what the kernel of paramsPTX stores.
type paramsOut struct {
	A uint8
	B int16
	C float32
	D float64
	E triple
	F uint32
}

// TestLaunchArguments: arguments of all types arrive in the kernel. Those that do not fit
// their parameter are refused with the reason.
func TestLaunchArguments(t *testing.T) {
	gputest.NeedsH200(t, "kernels that cannot use ordinary memory")
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(paramsPTX), nil))(t)
	k := must(m.Kernel("params"))(t)
	out := must(ferry.AllocHost[paramsOut](g, 1, &ferry.HostOptions{Mapped: true}))(t)
	defer closeAll(t, s, m, out)
	if p := k.Params(); len(p) != 7 || p[0].Name != "out" || p[5].Size != 12 || p[5].Offset != 24 {
		t.Errorf("parameters are %+v", p)
	}
	one := ferry.Cover(1, 1)
	e := triple{7, 2.5, [2]int16{-1, 2}}
	check(t, s.Launch(k, one, out, myByte(200), int16(-5), float32(math.Pi), -0.1, e, float32(1)))
	want := paramsOut{200, -5, math.Pi, -0.1, e, math.Float32bits(1)}
	if got := out.Slice()[0]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	check(t, s.Launch(k, one, uint64(out.Pointer()), true, uint16(9), float32(-1), math.Inf(1), [3]uint32{1, 2, 3}, int32(-1)))
	check(t, s.Wait(context.Background())) // Slice does not know of a buffer that was given as a number
	want = paramsOut{1, 9, -1, math.Inf(1), triple{1, math.Float32frombits(2), [2]int16{3, 0}}, math.MaxUint32}
	if got := out.Slice()[0]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}

	good := []any{out, uint8(1), int16(2), float32(3), float64(4), e, uint32(6)}
	for _, c := range []struct {
		index int
		arg   any
		parts []string
	}{
		{0, uint32(1), []string{"parameter 0", ".u64 out", "got uint32, 4 bytes", "uint64 or a buffer"}},
		{0, nil, []string{"parameter 0", "nil"}},
		{0, (*ferry.Host[int])(nil), []string{"nil *ferry.Host[int]"}},
		{0, ferry.Pageable([]int{1}), []string{"pageable slice", "Register"}},
		{0, []int{1}, []string{"[]int", "Register"}},
		{0, 1.5, []string{"got float64", "want uint64"}},
		{0, &e, []string{"*api.triple cannot be an argument"}},
		{0, map[int]int{}, []string{"map[int]int cannot be an argument"}},
		{0, [1]*int{nil}, []string{"holds Go pointers"}},
		{1, 5, []string{"parameter 1", ".u8 a", "got int, 8 bytes", "want uint8"}},
		{2, int32(5), []string{"got int32", "want int16"}},
		{3, int32(5), []string{"got int32", "want float32"}},
		{4, out, []string{"got *ferry.Host", "want float64"}},
		{4, float32(4), []string{"got float32, 4 bytes", "want float64"}},
		{5, uint64(4), []string{"got uint64, 8 bytes", "want 12 bytes"}},
		{5, "text", []string{"string cannot be an argument"}},
	} {
		args := slices.Clone(good)
		args[c.index] = c.arg
		wantError(t, s.Launch(k, one, args...), cu.ErrorInvalidValue, append(c.parts, "launch params", "stream")...)
	}
	wantError(t, s.Launch(k, one, good[:6]...), cu.ErrorInvalidValue, "6 arguments", "7 parameters", ".f32 c")
	wantError(t, s.Launch(k, one, append(good, 1)...), cu.ErrorInvalidValue, "8 arguments")
	wantError(t, s.Launch(k, one), cu.ErrorInvalidValue, "0 arguments")
	check(t, s.Launch(k, one, good...))
	check(t, s.Wait(context.Background()))
}

// TestLaunchConfig: configurations beyond the limits of the device are refused with the
// reason.
func TestLaunchConfig(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	v := must(ferry.Alloc[float32](g, 10))(t)
	defer closeAll(t, s, code, v)
	dim := func(x, y, z uint32) cu.Dim3 { return cu.Dim3{X: x, Y: y, Z: z} }
	for _, c := range []struct {
		config ferry.LaunchConfig
		parts  []string
	}{
		{ferry.Cover(-1, 256), []string{"at least one block"}},
		{ferry.Cover(10, 0), []string{"at least one block"}},
		{ferry.Cover(10, -5), []string{"at least one block"}},
		{ferry.LaunchConfig{}, []string{"grid 0x1x1"}},
		{ferry.Cover(10, 2048), []string{"block of 2048 threads along x", "1024"}},
		{ferry.LaunchConfig{Grid: dim(1, 1, 1), Block: dim(1024, 2, 1)}, []string{"block of 2048 threads", "1024"}},
		{ferry.LaunchConfig{Grid: dim(1, 1, 1), Block: dim(1, 1, 65)}, []string{"block of 65 threads along z", "64"}},
		{ferry.LaunchConfig{Grid: dim(1, 70000, 1), Block: dim(1, 1, 1)}, []string{"grid of 70000 blocks along y", "65535"}},
		{ferry.Cover(math.MaxInt, 1), []string{"grid of 4294967295 blocks along x", "2147483647"}},
		{ferry.LaunchConfig{Grid: dim(1, 1, 1), Block: dim(1, 1, 1), SharedBytes: 1 << 30}, []string{"1073741824 bytes of shared memory"}},
		{ferry.LaunchConfig{Grid: dim(1, 1, 1), Block: dim(1, 1, 1), SharedBytes: -1}, []string{"-1 bytes of shared memory"}},
	} {
		wantError(t, s.Launch(k, c.config, v, uint64(10)), cu.ErrorInvalidValue, append(c.parts, "launch increment")...)
	}
	for _, config := range []ferry.LaunchConfig{ferry.Cover(0, 256), ferry.Cover(1, 1024), {Grid: dim(2, 3, 4), Block: dim(8, 1, 1)}} {
		check(t, s.Launch(k, config, v, uint64(10)))
	}
	check(t, s.Wait(context.Background()))
	for n, want := range map[int]uint32{0: 1, 1: 1, 256: 1, 257: 2, 512: 2, 513: 3} {
		if got := ferry.Cover(n, 256).Grid.X; got != want {
			t.Errorf("Cover(%d, 256) has %d blocks, want %d", n, got, want)
		}
	}
}

// cubinDriver loads code that is not PTX. It may know the parameters of kernels, and keeps
// the arguments of the last launch.
type cubinDriver struct {
	*fakeDriver
	sizes  []uintptr // of the parameters, 8 bytes apart; nil if the driver is too old to know
	params []byte
	broken error // what every wait returns
}

func (d *cubinDriver) FuncGetParamInfo(_ cu.Context, _ cu.Function, i uintptr) (offset, size uintptr, err error) {
	switch {
	case d.sizes == nil:
		return 0, 0, &cu.NotSupportedError{Call: "cuFuncGetParamInfo", Needs: "CUDA 12.4 or newer", Found: "an old driver"}
	case i >= uintptr(len(d.sizes)):
		return 0, 0, cu.ErrorInvalidValue
	}
	return 8 * i, d.sizes[i], nil
}

func (d *cubinDriver) LaunchKernel(_ cu.Context, _ cu.Function, _, _ cu.Dim3, _ uint32, _ cu.Stream, params []byte) error {
	d.params = bytes.Clone(params)
	return nil
}

func (d *cubinDriver) StreamQuery(cu.Context, cu.Stream) error { return d.broken }

func (d *cubinDriver) CtxSynchronize(cu.Context) error { return d.broken }

// TestLaunchWithoutPTX: arguments are checked against what the driver knows of the parameters.
// The error of a wait names the kernel that was launched last.
func TestLaunchWithoutPTX(t *testing.T) {
	d := &cubinDriver{fakeDriver: newFake()}
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte{0x7f, 'E', 'L', 'F', 0}, nil))(t)
	unknown := must(m.Kernel("k"))(t)
	if m.Kernels() != nil || unknown.Params() != nil {
		t.Errorf("kernels %q, parameters %v", m.Kernels(), unknown.Params())
	}
	check(t, s.Launch(unknown, ferry.Cover(1, 1), uint8(1), uint32(2), uint16(3), uint64(4)))
	want := []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}
	if !bytes.Equal(d.params, want) {
		t.Errorf("packed as %v, want %v", d.params, want)
	}
	wantError(t, s.Launch(unknown, ferry.Cover(1, 1), uint8(1), "two"), cu.ErrorInvalidValue, "argument 1", "string")

	d.sizes = []uintptr{4, 8}
	known := must(m.Kernel("k"))(t)
	check(t, s.Launch(known, ferry.Cover(1, 1), float32(0), uint64(5)))
	if want := []byte{0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0}; !bytes.Equal(d.params, want) {
		t.Errorf("packed as %v, want %v", d.params, want)
	}
	wantError(t, s.Launch(known, ferry.Cover(1, 1), uint64(0), uint64(5)), cu.ErrorInvalidValue, "parameter 0 (4 bytes)", "got uint64, 8 bytes", "want 4 bytes")
	wantError(t, s.Launch(known, ferry.Cover(1, 1), uint32(0)), cu.ErrorInvalidValue, "1 arguments", "2 parameters: 4 bytes, 8 bytes")

	d.broken = cu.ErrorIllegalAddress // like hardware, it does not name the kernel
	wantError(t, s.Wait(context.Background()), cu.ErrorIllegalAddress, "wait for stream 1", "the last kernel launched there was k")
	quiet := must(ferry.NewStream(g, nil))(t)
	wantError(t, quiet.Wait(context.Background()), cu.ErrorIllegalAddress, "stream 2", "no kernel was launched there")
	wantError(t, g.Wait(context.Background()), cu.ErrorIllegalAddress, "wait for all work")
	d.broken = nil
	check(t, quiet.Wait(context.Background()))
	closeAll(t, quiet, m, s)
}

// TestLaunchSharedMemory launches with more shared memory than the default limit.
func TestLaunchSharedMemory(t *testing.T) {
	g := openTest(t)
	most, err := g.Attribute(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin)
	if err != nil {
		t.Skip(err)
	}
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	v := must(ferry.Alloc[float32](g, 10))(t)
	check(t, ferry.Fill(s, v, 1))
	config := ferry.Cover(10, 32)
	for _, config.SharedBytes = range []int{0, 1, 40 << 10, most - 1, most} {
		check(t, s.Launch(k, config, v, uint64(10)))
	}
	config.SharedBytes = most + 1
	wantError(t, s.Launch(k, config, v, uint64(10)), cu.ErrorInvalidValue, "bytes of shared memory")
	got := make([]float32, 10)
	check(t, ferry.Copy(s, ferry.Pageable(got), v))
	if got[9] != 6 {
		t.Errorf("got %v, want 6", got[9])
	}
	closeAll(t, code, v, s)
}

// TestFault: the error of a kernel says which stream reports it and which kernel it was.
// Everything can still be closed.
func TestFault(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	m, k := load(t, g, "increment")
	v, h := must(ferry.Alloc[float32](g, 10))(t), must(ferry.AllocHost[float32](g, 10, nil))(t)
	check(t, s.Launch(k, ferry.Cover(1<<20, 256), v, uint64(1<<20)))
	err := s.Wait(context.Background())
	wantError(t, err, cu.ErrorIllegalAddress, "wait for stream 1 of soft:h200", "increment")
	if f, ok := errors.AsType[*cu.Fault](err); !ok || f.Kernel != "increment" {
		t.Errorf("the fault is %+v", f)
	}
	wantError(t, ferry.Copy(s, v, h), cu.ErrorIllegalAddress, "copy 40 bytes")
	for _, c := range []interface{ Close() error }{v, h, m, s, g} {
		if err := c.Close(); err != nil && !errors.Is(err, cu.ErrorIllegalAddress) {
			t.Error(err)
		}
		check(t, c.Close())
	}
}

// addParams are the parameters of the kernel vector_add.
var addParams = []ferrybind.Param{
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
	add := must(ferrybind.Kernel(code, "vector_add", addParams...))(t)
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
		"stream": func() error { return ferrybind.Launch(add, s, ferry.Cover(n, 256), a, a, c, uint64(n)) },
		"batch": func() error {
			batch.Reset()
			return errors.Join(ferrybind.Launch(add, &batch, ferry.Cover(n, 256), a, a, c, uint64(n)), s.Submit(&batch))
		},
		"replay": func() error { return s.Submit(&batch) },
	} {
		if name == "replay" {
			batch.Reset()
			check(t, ferrybind.Launch(add, &batch, ferry.Cover(n, 256), a, a, c, uint64(n)))
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
	add := must(ferrybind.Kernel(code, "vector_add", addParams...))(t)
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
	check(t, ferrybind.Launch(add, s, ferry.Cover(n, 256), fixed, fixed.Range(0, n), d, uint64(n)))
	if got := must(ferry.Download(d))(t); !slices.Equal(got[:3], []float32{0, 2, 4}) {
		t.Errorf("sums %v", got[:3])
	}
	err = ferrybind.Launch(add, s, ferry.Cover(n, 256), d, d, fixed, uint64(n))
	if err == nil || !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "parameter 2") || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a kernel writes to memory registered with ReadOnly: %v", err)
	}
}

// TestBindRefuses: parameters that differ from those of the module are named.
func TestBindRefuses(t *testing.T) {
	g := openTest(t)
	code := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	defer closeAll(t, code)
	wrong := slices.Clone(addParams)
	wrong[3] = ferrybind.Param{Name: "n", Type: "int", Size: 4}
	for _, c := range []struct {
		name   string
		params []ferrybind.Param
		want   string
	}{
		{"vector_add", wrong, `argument 4 (n) is int, 4 bytes, in the Go code and 8 bytes in the module`},
		{"vector_add", addParams[:3], `3 parameters in the Go code and 4 in the module`},
		{"vector_add", nil, `0 parameters in the Go code`},
		{"vector_sub", addParams, `find kernel "vector_sub"`},
	} {
		if _, err := ferrybind.Kernel(code, c.name, c.params...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	add := must(ferrybind.Kernel(code, "vector_add", addParams...))(t)
	if err := ferrybind.Launch(add, nil, ferry.Cover(1, 1)); err == nil || !strings.Contains(err.Error(), "no stream or batch given") {
		t.Errorf("launch on nothing: %v", err)
	}
	if err := ferrybind.Launch(nil, &ferry.Batch{}, ferry.Cover(1, 1)); err == nil {
		t.Error("a nil kernel can be launched")
	}
}

// TestBindAllocates: Launch of a kernel allocates nothing, with numbers among the arguments.
func TestBindAllocates(t *testing.T) {
	if racebuild.On || checked() {
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
	return ferrybind.Launch(k, q, ferry.Cover(1000, 256), x, x, x, n)
}
