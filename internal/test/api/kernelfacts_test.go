package api

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	memory "github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// factsPTX has kernels with known properties. around has a barrier of the grid in the
// form of cooperative_groups::this_grid().sync(): each block writes its number + 1 to
// data, and after the barrier the next block's to out.
const factsPTX = `.version 6.3
.target sm_70
.address_size 64
.const .align 4 .b8 table[40];
.extern .shared .align 4 .b8 window[];
.visible .entry memory(.param .u64 out)
{
	.shared .align 4 .b8 tile[2048];
	.reg .b64 %d<3>; .reg .b32 %r<4>;
	ld.param.u64 %d1, [out];
	ld.volatile.shared.u32 %r1, [tile];
	ld.const.u32 %r2, [table];
	add.u32 %r1, %r1, %r2;
	st.global.u32 [%d1], %r1;
	ret;
}
.visible .entry bounded(.param .u64 out) .maxntid 128, 1, 1 { ret; }
.visible .entry dynamic(.param .u64 out, .param .u32 last)
{
	.reg .b64 %d<3>; .reg .b32 %r<8>;
	ld.param.u64 %d1, [out];
	ld.param.u32 %r1, [last];
	mov.u32 %r2, window;
	add.u32 %r3, %r2, %r1;
	st.shared.u32 [%r3], %r1;
	ld.volatile.shared.u32 %r4, [%r3];
	st.global.u32 [%d1], %r4;
	ret;
}
.visible .entry around(.param .u64 data, .param .u64 out)
{
	.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<10>;
	ld.param.u64 %d1, [data];
	ld.param.u64 %d2, [out];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %nctaid.x;
	mov.u32 %r3, %tid.x;
	add.u32 %r4, %r1, 1;
	rem.u32 %r5, %r4, %r2;
	mul.wide.u32 %d3, %r1, 4;
	add.u64 %d4, %d1, %d3;
	add.u64 %d5, %d2, %d3;
	mul.wide.u32 %d6, %r5, 4;
	add.u64 %d7, %d1, %d6;
	setp.ne.u32 %p1, %r3, 0;
	@%p1 bra arrived;
	st.global.u32 [%d4], %r4;
	mov.u32 %r6, %envreg1;
	mov.u32 %r7, %envreg2;
	mov.b64 %d8, {%r7, %r6};
	setp.eq.u32 %p2, %r1, 0;
	sub.s32 %r8, -2147483647, %r2;
	selp.b32 %r8, %r8, 1, %p2;
	membar.gl;
	atom.add.u32 %r9, [%d8+4], %r8;
wait:
	ld.volatile.u32 %r10, [%d8+4];
	xor.b32 %r10, %r10, %r9;
	setp.gt.s32 %p3, %r10, -1;
	@%p3 bra wait;
	membar.gl;
	ld.volatile.global.u32 %r11, [%d7];
	st.global.u32 [%d5], %r11;
arrived:
	bar.sync 0;
	ret;
}
`

// factKernel loads factsPTX and finds a kernel.
func factKernel(t testing.TB, g *ferry.GPU, name string) (*ferry.Module, *ferry.Kernel) {
	t.Helper()
	m := must(ferry.Load(g, []byte(factsPTX), nil))(t)
	return m, must(m.Kernel(name))(t)
}

func TestKernelFacts(t *testing.T) {
	g := openTest(t)
	m, k := factKernel(t, g, "memory")
	defer closeAll(t, m)
	f := must(k.Facts())(t)
	if f.StaticShared != 2048 || f.Local != 0 || f.Constant < 40 || f.PTXVersion != 70 || f.BinaryVersion < 70 || f.MaxThreads < 128 {
		t.Errorf("facts %+v", f)
	}
	if f.Registers < 1 || f.Registers > 255 || f.Estimated != g.Emulated() || f.Carveout != -1 {
		t.Errorf("facts %+v", f)
	}
	if f.DynamicShared < 46<<10 {
		t.Errorf("%d bytes of dynamic shared memory", f.DynamicShared)
	}
	if f := must(must(m.Kernel("bounded"))(t).Facts())(t); f.MaxThreads != 128 {
		t.Errorf("at most %d threads, want 128", f.MaxThreads)
	}
}

func TestKernelOccupancy(t *testing.T) {
	g := openTest(t)
	m, k := factKernel(t, g, "dynamic")
	defer closeAll(t, m)
	facts := must(k.Facts())(t)
	small, large := must(k.Occupancy(128, 0))(t), must(k.Occupancy(128, facts.DynamicShared))(t)
	if large.Blocks != 1 || small.Blocks <= 1 || small.Estimated != g.Emulated() {
		t.Errorf("%+v without shared memory, %+v with all of it", small, large)
	}
	if small.Fraction <= 0 || small.Fraction > 1 || large.Fraction >= small.Fraction {
		t.Errorf("fractions %v and %v", small.Fraction, large.Fraction)
	}
	block, grid, err := k.SuggestBlock(0)
	check(t, err)
	if o := must(k.Occupancy(block, 0))(t); block < 32 || o.Blocks < 1 || grid%o.Blocks != 0 {
		t.Errorf("suggests %d blocks of %d threads, of which %d run on a multiprocessor", grid, block, o.Blocks)
	}
	bytes := must(k.AvailableShared(3, 128))(t)
	if o := must(k.Occupancy(128, bytes))(t); o.Blocks < 3 {
		t.Errorf("with %d bytes %d blocks run, want 3", bytes, o.Blocks)
	}
	check(t, k.SetCarveout(50))
	if f := must(k.Facts())(t); f.Carveout != 50 {
		t.Errorf("carveout %d, want 50", f.Carveout)
	}
	check(t, k.SetCarveout(-1))
	check(t, k.SetCache(cu.FuncCachePreferShared))
}

func TestKernelFactsMisuse(t *testing.T) {
	g := openTest(t)
	m, k := factKernel(t, g, "memory")
	invalid := func(err error, part string) {
		t.Helper()
		if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want an invalid value with %q", err, part)
		}
	}
	_, err := k.Occupancy(0, 0)
	invalid(err, "at least one thread")
	_, err = k.Occupancy(32, -1)
	invalid(err, "negative")
	_, err = k.Occupancy(32, 1<<30)
	invalid(err, "2048 static bytes")
	_, _, err = k.SuggestBlock(1 << 30)
	invalid(err, "the device has")
	_, err = k.AvailableShared(0, 32)
	invalid(err, "must be positive")
	_, err = k.AvailableShared(1000, 32)
	invalid(err, "1000 blocks")
	invalid(k.SetCarveout(101), "101 percent")
	var none *ferry.Kernel
	_, err = none.Facts()
	invalid(err, "no kernel given")
	_, err = none.Occupancy(32, 0)
	invalid(err, "no kernel given")
	closeAll(t, m)
	_, facts := k.Facts()
	_, occupancy := k.Occupancy(32, 0)
	_, _, suggest := k.SuggestBlock(0)
	_, available := k.AvailableShared(1, 32)
	for i, err := range []error{facts, occupancy, suggest, available, k.SetCache(0), k.SetCarveout(0)} {
		if !errors.Is(err, ferry.ErrClosed) {
			t.Errorf("call %d on a closed module: %v, want ErrClosed", i, err)
		}
	}
}

// TestLargeSharedMemory launches with all shared memory of the device, directly, in a
// batch and in a graph, each on a kernel that never had more than the default.
func TestLargeSharedMemory(t *testing.T) {
	gputest.NeedsCall(t, "cuGraphInstantiateWithFlags", 11040)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	out := must(ferry.Alloc[uint32](g, 1))(t)
	defer closeAll(t, s, out)
	for name, run := range map[string]func(k *ferry.Kernel, c ferry.LaunchConfig, last uint32) error{
		"stream": func(k *ferry.Kernel, c ferry.LaunchConfig, last uint32) error { return s.Launch(k, c, out, last) },
		"batch": func(k *ferry.Kernel, c ferry.LaunchConfig, last uint32) error {
			var b ferry.Batch
			return errors.Join(b.Launch(k, c, out, last), s.Submit(&b))
		},
		"graph": func(k *ferry.Kernel, c ferry.LaunchConfig, last uint32) error {
			x, err := s.Capture(func(s *ferry.Stream) error { return s.Launch(k, c, out, last) })
			if err != nil {
				return err
			}
			return errors.Join(x.Launch(s), s.Wait(t.Context()), x.Close())
		},
	} {
		m, k := factKernel(t, g, "dynamic")
		all := must(k.Facts())(t).DynamicShared
		if all <= 48<<10 && g.Emulated() {
			t.Fatalf("%d bytes", all)
		}
		last := uint32(all - 4)
		check(t, ferry.Fill(s, out, 0))
		if err := run(k, ferry.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}, SharedBytes: all}, last); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := make([]uint32, 1)
		check(t, ferry.Copy(s, ferry.Pageable(got), out))
		check(t, s.Wait(t.Context()))
		if got[0] != last {
			t.Errorf("%s: the kernel stored %d in the last word, want %d", name, got[0], last)
		}
		closeAll(t, m)
	}
}

// TestCooperative launches a grid whose blocks wait for each other, and captures it.
func TestCooperative(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	m, k := factKernel(t, g, "around")
	defer closeAll(t, s, m)
	_, most, err := k.SuggestBlock(0)
	check(t, err)
	n := min(most, 300)
	data, out := must(ferry.Alloc[uint32](g, n))(t), must(ferry.Alloc[uint32](g, n))(t)
	defer closeAll(t, data, out)
	want := make([]uint32, n)
	for i := range want {
		want[i] = uint32((i+1)%n + 1)
	}
	c := ferry.LaunchConfig{Grid: cu.Dim3{X: uint32(n)}, Block: cu.Dim3{X: 64}, Cooperative: true, Programmatic: true}
	verify := func(what string) {
		t.Helper()
		got := make([]uint32, n)
		check(t, ferry.Copy(s, ferry.Pageable(got), out))
		check(t, s.Wait(t.Context()))
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
		check(t, ferry.Fill(s, data, 0))
		check(t, ferry.Fill(s, out, 0))
	}
	check(t, s.Launch(k, c, data, out))
	verify("launch")
	c.Programmatic = false
	x := must(s.Capture(func(s *ferry.Stream) error { return s.Launch(k, c, data, out) }))(t)
	check(t, x.Launch(s))
	verify("graph")
	check(t, x.Update(s, func(s *ferry.Stream) error { return s.Launch(k, c, data, out) }))
	check(t, x.Launch(s))
	verify("updated graph")
	closeAll(t, x)

	c.Grid.X = 1 << 22
	err = s.Launch(k, c, data, out)
	if !errors.Is(err, cu.ErrorCooperativeLaunchTooLarge) || !strings.Contains(err.Error(), "at most") || !strings.Contains(err.Error(), "cooperative") {
		t.Errorf("error %v, want how many blocks fit", err)
	}
	var b ferry.Batch
	if err := b.Launch(k, c, data, out); !errors.Is(err, cu.ErrorNotSupported) || !strings.Contains(err.Error(), "batch") {
		t.Errorf("error %v, want that a batch refuses the launch", err)
	}
}

func TestSpecialLaunchRefused(t *testing.T) {
	gputest.NeedsCall(t, "cuLaunchKernelEx", 11060)
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	m, k := factKernel(t, g, "bounded")
	defer closeAll(t, s, m)
	launch := func(c ferry.LaunchConfig) error {
		c.Grid, c.Block = cu.Dim3{X: 6, Y: 2}, cu.Dim3{X: 32}
		return s.Launch(k, c, cu.DevicePtr(0))
	}
	for _, c := range []struct {
		config ferry.LaunchConfig
		code   cu.Result
		part   string
	}{
		{ferry.LaunchConfig{Cluster: cu.Dim3{X: 4}}, cu.ErrorInvalidClusterSize, "4x1x1 blocks do not divide a grid of 6x2x1"},
		{ferry.LaunchConfig{Cluster: cu.Dim3{Y: 2}}, cu.ErrorInvalidClusterSize, "X is 0"},
	} {
		if err := launch(c.config); !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%v: error %v, want %v with %q", c.config, err, c.code, c.part)
		}
	}
	check(t, launch(ferry.LaunchConfig{Cluster: cu.Dim3{X: 1}}))
	check(t, launch(ferry.LaunchConfig{Cluster: cu.Dim3{X: 2, Y: 2}}))
	check(t, s.Wait(t.Context()))

	old := openSoft(t, "fermi-c2050", softgpu.Eager)
	oldStream := must(ferry.NewStream(old, nil))(t)
	oldModule, oldKernel := factKernel(t, old, "bounded")
	defer closeAll(t, oldStream, oldModule)
	for part, c := range map[string]ferry.LaunchConfig{
		"no cooperative launches": {Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}, Cooperative: true},
		"no clusters":             {Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}, Cluster: cu.Dim3{X: 1}},
	} {
		if err := oldStream.Launch(oldKernel, c, cu.DevicePtr(0)); !errors.Is(err, cu.ErrorNotSupported) || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q", err, part)
		}
	}
	text := ferry.LaunchConfig{Grid: cu.Dim3{X: 4}, Block: cu.Dim3{X: 2}, Cooperative: true, Programmatic: true, Cluster: cu.Dim3{X: 2}}.String()
	if want := "grid 4x1x1, block 2x1x1, cooperative, programmatic, clusters of 2x1x1"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

// TestArgumentType: under package check, a float64 buffer for a float* is reported at its
// launch, once, and a float32 buffer is not.
func TestArgumentType(t *testing.T) {
	soft := must(softgpu.Open(softgpu.Options{}))(t)
	d := memory.Wrap(soft, memory.Options{})
	g := must(ferry.OpenDriver(d, 0))(t)
	m := must(ferry.Load(g, []byte(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry _Z3addPfi(.param .u64 p, .param .u32 n) { ret; }\n"), nil))(t)
	k := must(m.Kernel("_Z3addPfi"))(t)
	good, bad := must(ferry.Alloc[float32](g, 4))(t), must(ferry.Alloc[float64](g, 4))(t)
	s := g.DefaultStream()
	for range 2 {
		for _, x := range []any{good, bad, good} {
			if err := s.Launch(k, ferry.Cover(1, 1), x, int32(4)); err != nil {
				t.Fatal(err)
			}
		}
	}
	found := d.Findings()
	if len(found) != 1 || found[0].Kind != memory.ArgumentType || found[0].What != "parameter 0 is a float*, and gets a *ferry.Device[float64]" || !strings.Contains(found[0].Second.Place, "kernelfacts_test.go") {
		t.Errorf("found %v", found)
	}
	closeAll(t, good, bad, m, g)
}
