package convert

import (
	"regexp"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// storesOfHalves finds an st.u8 of a register that cvt.rn.f16.f32 has written.
func storesOfHalves(text string) (found []string) {
	halves := map[string]bool{}
	line := regexp.MustCompile(`cvt\.rn\.f16\.f32\s+(%\w+)|st\.global\.[usb]8\s+\[[^]]*\], (%\w+);`)
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			halves[m[1]] = true
		}
		if halves[m[2]] {
			found = append(found, m[0])
		}
	}
	return found
}

// TestNoStoreOfHalf: the kernels have no instructions that NVIDIA's compiler makes another conversion of.
// See TestMiscompiled.
func TestNoStoreOfHalf(t *testing.T) {
	_, kernels := split(ptx)
	for name, text := range kernels {
		if found := storesOfHalves(text); len(found) > 0 {
			t.Errorf("kernel %s: %q", name, found)
		}
	}
	if found := storesOfHalves(miscompiled); len(found) != 1 {
		t.Errorf("the example has %q, want one", found)
	}
}

// miscompiled stores the lower byte of half(x) in several ways.
const miscompiled = `.version 6.3
.target sm_75
.address_size 64
.visible .entry halves(.param .u64 out, .param .f32 x)
{
	.reg .b16 %h<4>;
	.reg .b32 %r<5>;
	.reg .f32 %f<2>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [out];
	cvta.to.global.u64 %rd2, %rd1;
	ld.param.f32 %f1, [x];
	cvt.rn.f16.f32 %h1, %f1;
	st.global.u8 [%rd2], %h1;
	cvt.rn.f16.f32 %h2, %f1;
	cvt.u32.u16 %r2, %h2;
	st.global.u8 [%rd2+1], %r2;
	cvt.rn.f16.f32 %h3, %f1;
	cvt.u32.u16 %r3, %h3;
	mov.b32 %r4, %f1;
	shr.u32 %r4, %r4, 16;
	and.b32 %r4, %r4, 32768;
	or.b32 %r3, %r3, %r4;
	st.global.u8 [%rd2+2], %r3;
	ret;
}
`

// TestMiscompiled: the driver's compiler still takes cvt.rn.f16.f32 and st.u8 for a conversion to an
// integer. If it does not, the kernels need no arithmetic of their own before bytes. The software GPU
// does what the ISA says.
func TestMiscompiled(t *testing.T) {
	soft, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer soft.Close()
	if got, want := lowBytes(t, soft), [3]byte{low, low, low}; got != want {
		t.Errorf("the software GPU stores %#x, want %#x", got, want)
	}
	gputest.Driver(t)
	hard, err := ferry.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer hard.Close()
	got := lowBytes(t, hard)
	t.Logf("stored at once: %#x, by way of 32 bits: %#x, by way of or: %#x; the half has %#x", got[0], got[1], got[2], low)
	if got[0] == low {
		t.Error("the driver compiles it as the ISA says: remove F16.bytes_of in convert.cu, and this test")
	}
}

// number is 0x5a40 as a half, and 0xc8 as an integer.
const (
	number = float32(200)
	low    = 0x40
)

// lowBytes runs the example.
func lowBytes(t *testing.T, g *ferry.GPU) (b [3]byte) {
	t.Helper()
	m, err := ferry.Load(g, []byte(miscompiled), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	k, err := m.Kernel("halves")
	if err != nil {
		t.Fatal(err)
	}
	out, err := ferry.Alloc[byte](g, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := g.DefaultStream().Launch(k, ferry.Cover(1, 1), out, number); err != nil {
		t.Fatal(err)
	}
	if err := g.DefaultStream().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := ferry.Download(out)
	if err != nil {
		t.Fatal(err)
	}
	return [3]byte(all[:3])
}
