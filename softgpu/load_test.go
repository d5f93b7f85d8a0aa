package softgpu

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/linkimage"
)

// codeOf returns the code of a loaded module.
func (r *rig) codeOf(m cu.Module) *module {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	x, err := lookup[*module](r.Driver, uintptr(m), "find", "module")
	r.ok(err)
	return x
}

// TestLoadsShareCode: modules of the same bytes share the parsed text, also in another
// driver. Their variables are apart.
func TestLoadsShareCode(t *testing.T) {
	r, other := newRig(t, Options{}), newRig(t, Options{})
	text := fmt.Appendf([]byte(testPTX), "// %d\n", rand.Uint64())
	load := func(r *rig, text []byte) *module {
		m, err := r.ModuleLoadData(r.ctx, text)
		r.ok(err)
		return r.codeOf(m)
	}
	a, b, c := load(r, text), load(r, bytes.Clone(text)), load(other, text)
	if a.source != b.source || a.source != c.source {
		t.Error("the text was parsed again")
	}
	for name, v := range a.vars {
		if w := b.vars[name]; v == w || v.device == w.device {
			t.Errorf("both modules have variable %s at %#x", name, v.device)
		}
	}
	if len(a.vars) == 0 {
		t.Error("the module has no variables: the test compares nothing")
	}
	if d := load(r, append(text, '\n')); d.source == a.source {
		t.Error("other bytes share the parsed text")
	}
}

// TestRefuses32Bit: modules of 32-bit addresses are refused when they are loaded or linked,
// with the line.
func TestRefuses32Bit(t *testing.T) {
	r := newRig(t, Options{})
	text := []byte(".version 7.0\n.target sm_75\n.address_size 32\n.visible .entry k() { ret; }\n")
	check := func(what string, err error) {
		t.Helper()
		r.want(cu.ErrorInvalidPTX, err)
		if err == nil || !strings.Contains(err.Error(), "3:1: .address_size 32 is not supported") || !strings.Contains(fmt.Sprintf("%+v", err), "\n.address_size 32\n^") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	_, err := r.ModuleLoadData(r.ctx, text)
	check("load", err)
	link, err := r.LinkCreate(r.ctx, nil)
	r.ok(err)
	check("link", r.LinkAddData(r.ctx, link, cu.JITInputPTX, text, "narrow"))
	r.ok(r.LinkDestroy(r.ctx, link))
}

// TestLinkThread: only the thread that began a link can complete it, and a goroutine that is not
// locked to its thread may leave it.
func TestLinkThread(t *testing.T) {
	r := newRig(t, Options{})
	complete := func(link cu.LinkState) error { _, _, err := r.LinkComplete(r.ctx, link); return err }
	link, err := r.LinkCreate(r.ctx, nil)
	r.ok(err)
	r.want(cu.ErrorInvalidHandle, complete(link))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.ok(complete(link))
	other := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		other <- complete(link)
	}()
	r.want(cu.ErrorInvalidHandle, <-other)
	r.ok(complete(link))
	r.ok(r.LinkDestroy(r.ctx, link))
}

// TestLinkedImages: the image of a link can be loaded again later, and damaged ones are
// refused.
func TestLinkedImages(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := newRig(t, Options{})
	link, err := r.LinkCreate(r.ctx, &cu.JITOptions{MaxRegisters: 30})
	r.ok(err)
	r.ok(r.LinkAddData(r.ctx, link, cu.JITInputPTX, []byte(testPTX), "test"))
	r.want(cu.ErrorInvalidValue, r.LinkAddData(r.ctx, link, 99, []byte(testPTX), "kind"))
	r.want(cu.ErrorNoBinaryForGPU, r.LinkAddData(r.ctx, link, cu.JITInputCubin, []byte(testPTX), "cubin"))
	r.want(cu.ErrorInvalidImage, r.LinkAddData(r.ctx, link, cu.JITInputFatbinary, []byte(testPTX), "fatbin"))
	image, _, err := r.LinkComplete(r.ctx, link)
	r.ok(err)
	r.ok(r.LinkDestroy(r.ctx, link))
	m, err := r.ModuleLoadData(r.ctx, image)
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, "store")
	r.ok(err)
	if n, err := r.FuncGetAttribute(r.ctx, cu.FuncAttributeNumRegs, f); err != nil || n > 30 {
		t.Errorf("%d registers, %v, want at most 30", n, err)
	}
	empty, err := r.LinkCreate(r.ctx, &cu.JITOptions{OptimizationLevel: new(uint32(5))}) // as on hardware
	r.ok(err)
	none, _, err := r.LinkComplete(r.ctx, empty)
	r.ok(err)
	r.ok(r.LinkDestroy(r.ctx, empty))
	if _, err := r.ModuleLoadData(r.ctx, none); err != nil {
		t.Errorf("the image of a link without inputs: %v", err)
	}
	header := linkimage.HeaderBytes
	for i := range header + 8 {
		for _, b := range []byte{0, 1, 0x7f, 0xff} {
			bad := bytes.Clone(image)
			bad[i] ^= b
			m, err := r.ModuleLoadData(r.ctx, bad)
			if err == nil {
				r.ok(r.ModuleUnload(r.ctx, m))
			}
			if i < header && (err == nil) != (b == 0) {
				t.Errorf("byte %d changed by %#x: %v", i, b, err)
			}
		}
	}
	for n := range header + 50 {
		if _, err := r.ModuleLoadData(r.ctx, image[:n]); err == nil {
			t.Errorf("an image cut at %d bytes was loaded", n)
		}
	}
}

// pairPTX rounds a*b + c once if the product and the sum are joined, else twice.
const pairPTX = `.version 7.0
.target sm_80
.address_size 64
.visible .entry pair(.param .f32 a, .param .f32 b, .param .f32 c, .param .u64 out) {
	.reg .f32 %a, %b, %c;
	.reg .u64 %out;
	ld.param.f32 %a, [a];
	ld.param.f32 %b, [b];
	ld.param.f32 %c, [c];
	ld.param.u64 %out, [out];
	mul.f32 %a, %a, %b;
	add.f32 %a, %a, %c;
	st.global.f32 [%out], %a;
	ret;
}
`

// TestOptimisation checks that a multiplication and an addition are joined, but not if the
// program is loaded or linked without optimisation. Loads of one text in both ways do not mix.
func TestOptimisation(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := newRig(t, Options{})
	const a, once, twice = 1 + 0x1p-23, 0x1p-46, 0
	result := func(m cu.Module) float32 {
		f, err := r.ModuleGetFunction(r.ctx, m, "pair")
		r.ok(err)
		out := r.alloc(8)
		r.ok(r.MemsetD8(r.ctx, out, 0xff, 8))
		r.ok(r.run(f, 1, 1, 0, math.Float32bits(a), math.Float32bits(a), math.Float32bits(-1-0x1p-22), out))
		r.ok(r.CtxSynchronize(r.ctx))
		bits := uint32(r.words(out, 1)[0])
		r.ok(r.MemFree(r.ctx, out))
		r.ok(r.ModuleUnload(r.ctx, m))
		return math.Float32frombits(bits)
	}
	for range 2 {
		for _, c := range []struct {
			name string
			o    *cu.JITOptions
			want float32
		}{
			{"default", nil, once}, {"level 0", &cu.JITOptions{OptimizationLevel: new(uint32(0))}, twice},
			{"level 1", &cu.JITOptions{OptimizationLevel: new(uint32(1))}, once}, {"debug", &cu.JITOptions{DebugInfo: true}, twice},
			{"lines", &cu.JITOptions{LineInfo: true}, once},
		} {
			m, _, err := r.ModuleLoadDataEx(r.ctx, []byte(pairPTX), c.o)
			r.ok(err)
			if got := result(m); got != c.want {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			}
			link, err := r.LinkCreate(r.ctx, c.o)
			r.ok(err)
			r.ok(r.LinkAddData(r.ctx, link, cu.JITInputPTX, []byte(pairPTX), "pair"))
			image, _, err := r.LinkComplete(r.ctx, link)
			r.ok(err)
			r.ok(r.LinkDestroy(r.ctx, link))
			if m, err = r.ModuleLoadData(r.ctx, image); err != nil {
				t.Fatal(err)
			}
			if got := result(m); got != c.want {
				t.Errorf("linked, %s: got %v, want %v", c.name, got, c.want)
			}
		}
	}
}
