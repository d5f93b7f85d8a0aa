package libcuda_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// testPTX has an empty kernel, and one that sets p[i] = p[i]*k + i + bias for i below
// n.
const testPTX = `.version 6.3
.target sm_52
.address_size 64

.visible .global .align 4 .u32 bias = 7;

.visible .entry empty()
{
	ret;
}

.visible .entry scale(.param .u64 p, .param .u32 n, .param .u32 k)
{
	.reg .pred %q;
	.reg .b32 %r<9>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [k];
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, %tid.x;
	mad.lo.u32 %r6, %r3, %r4, %r5;
	setp.ge.u32 %q, %r6, %r1;
	@%q bra done;
	cvta.to.global.u64 %d1, %d1;
	mul.wide.u32 %d2, %r6, 4;
	add.u64 %d3, %d1, %d2;
	ld.global.u32 %r7, [%d3];
	mad.lo.u32 %r7, %r7, %r2, %r6;
	ld.global.u32 %r8, [bias];
	add.u32 %r7, %r7, %r8;
	st.global.u32 [%d3], %r7;
done:
	ret;
}
`

func (g *gpu) module(ptx string) cu.Module {
	g.Helper()
	m, err := g.ModuleLoadData(g.ctx, []byte(ptx))
	if err != nil {
		g.Fatalf("%+v", err)
	}
	g.cleanup(func() error { return g.ModuleUnload(g.ctx, m) })
	return m
}

func (g *gpu) kernel(m cu.Module, name string) cu.Function {
	g.Helper()
	f, err := g.ModuleGetFunction(g.ctx, m, name)
	g.must(err)
	return f
}

// scaleParams packs the parameters of scale.
func scaleParams(p cu.DevicePtr, n, k uint32) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(p))
	b = binary.LittleEndian.AppendUint32(b, n)
	return binary.LittleEndian.AppendUint32(b, k)
}

// scaled returns what the kernel scale makes of data.
func scaled(data []byte, k, bias uint32) []byte {
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data)/4; i++ {
		v := binary.LittleEndian.Uint32(data[4*i:])
		out = binary.LittleEndian.AppendUint32(out, v*k+uint32(i)+bias)
	}
	return out
}

var one = cu.Dim3{X: 1, Y: 1, Z: 1}

// over returns the grid for n threads in blocks of 256.
func over(n uint32) (grid, block cu.Dim3) {
	return cu.Dim3{X: (n + 255) / 256, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}
}

func TestGPULaunch(t *testing.T) {
	g := newGPU(t)
	m := g.module(testPTX)
	scale := g.kernel(m, "scale")
	const n = 10_000
	p, s := g.alloc(4*n), g.stream()
	grid, block := over(n)

	address, size, err := g.ModuleGetGlobal(g.ctx, m, "bias")
	g.must(err)
	if size != 4 || binary.LittleEndian.Uint32(g.download(address, 4)) != 7 {
		t.Errorf("bias: %d bytes", size)
	}
	for i, k := range []uint32{3, 1 << 20, 0xffffffff} {
		bias := uint32(i) * 1000
		g.must(g.MemsetD32(g.ctx, address, bias, 1))
		data := random(4 * n)
		g.upload(p, data)
		g.must(g.CtxSynchronize(g.ctx))
		g.must(g.LaunchKernel(g.ctx, scale, grid, block, 0, s, scaleParams(p, n, k)))
		g.must(g.StreamSynchronize(g.ctx, s))
		g.same("scale", g.download(p, 4*n), scaled(data, k, bias))
	}
	g.must(g.LaunchKernel(g.ctx, g.kernel(m, "empty"), one, one, 0, s, nil))
	g.must(g.StreamSynchronize(g.ctx, s))
	g.want(g.LaunchKernel(g.ctx, scale, grid, cu.Dim3{X: 4096, Y: 1, Z: 1}, 0, s, scaleParams(p, n, 1)), cu.ErrorInvalidValue)
	g.want(g.LaunchKernel(g.ctx, scale, cu.Dim3{}, block, 0, s, scaleParams(p, n, 1)), cu.ErrorInvalidValue)
}

func TestGPUFunctions(t *testing.T) {
	g := newGPU(t)
	m := g.module(testPTX)
	scale := g.kernel(m, "scale")
	for _, name := range []string{"scal", "Scale", ""} {
		if _, err := g.ModuleGetFunction(g.ctx, m, name); err == nil {
			t.Errorf("found a kernel %q, which does not exist", name)
		}
		if _, _, err := g.ModuleGetGlobal(g.ctx, m, name); err == nil {
			t.Errorf("found a variable %q, which does not exist", name)
		}
	}
	_, err := g.ModuleGetFunction(g.ctx, m, "scal")
	g.want(err, cu.ErrorNotFound)
	_, err = g.ModuleGetFunction(g.ctx, m, "scale\x00")
	g.want(err, cu.ErrorInvalidValue)

	threads, err := g.FuncGetAttribute(g.ctx, cu.FuncAttributeMaxThreadsPerBlock, scale)
	g.must(err)
	if threads < 256 || threads > 1024 {
		t.Errorf("at most %d threads in a block", threads)
	}
	g.must(g.FuncSetAttribute(g.ctx, scale, cu.FuncAttributeMaxDynamicSharedBytes, 12345))
	shared, err := g.FuncGetAttribute(g.ctx, cu.FuncAttributeMaxDynamicSharedBytes, scale)
	g.must(err)
	if shared != 12345 {
		t.Errorf("%d bytes of dynamic shared memory", shared)
	}
	for i, want := range [][2]uintptr{{0, 8}, {8, 4}, {12, 4}} {
		offset, size, err := g.FuncGetParamInfo(g.ctx, scale, uintptr(i))
		if errors.Is(err, cu.ErrorNotSupported) {
			t.Skip(err)
		}
		g.must(err)
		if offset != want[0] || size != want[1] {
			t.Errorf("parameter %d is %d bytes at %d, want %d at %d", i, size, offset, want[1], want[0])
		}
	}
	_, _, err = g.FuncGetParamInfo(g.ctx, scale, 3)
	g.want(err, cu.ErrorInvalidValue)
}

func TestGPUModuleErrors(t *testing.T) {
	g := newGPU(t)
	bad := strings.Replace(testPTX, "mul.wide.u32", "mul.broad.u32", 1)
	_, err := g.ModuleLoadData(g.ctx, []byte(bad))
	g.want(err, cu.ErrorInvalidPTX)
	if jit, ok := errors.AsType[*cu.JITError](err); !ok || !strings.Contains(jit.Log, "broad") {
		t.Errorf("error %+v, want the compiler's log", err)
	}
	for _, image := range []string{"", "this is no module", testPTX[:len(testPTX)/2]} {
		if _, err := g.ModuleLoadData(g.ctx, []byte(image)); err == nil {
			t.Errorf("loaded %q", image)
		} else {
			t.Logf("%.20q: %v", image, err)
		}
	}
	m, err := g.ModuleLoadData(g.ctx, []byte(testPTX))
	g.must(err)
	g.must(g.ModuleUnload(g.ctx, m))
}
