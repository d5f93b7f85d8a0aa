package runner

import (
	"math"
	"testing"
)

// TestHalfRoundTrip widens, prints and parses every 16-bit pattern.
func TestHalfRoundTrip(t *testing.T) {
	for _, l := range []format16{halfLayout, brainLayout} {
		for i := range 1 << 16 {
			h := uint16(i)
			v := l.widen(h)
			if math.IsNaN(v) {
				if !math.IsNaN(l.widen(l.narrow(v))) {
					t.Fatalf("%v: NaN %#x became %#x", l, h, l.narrow(v))
				}
				continue
			}
			if got := l.narrow(v); got != h {
				t.Fatalf("%v: %#x is %g is %#x", l, h, v, got)
			}
			if math.IsInf(v, 0) {
				continue
			}
			text := string(appendShort(nil, v, 32))
			if got, err := l.parse(text); err != nil || got != h {
				t.Fatalf("%v: %#x prints as %s, which is %#x, %v", l, h, text, got, err)
			}
		}
	}
}

// TestBrainIsTopOfFloat32 checks that a bf16 is the upper half of an f32.
func TestBrainIsTopOfFloat32(t *testing.T) {
	for i := range 1 << 16 {
		want := float64(math.Float32frombits(uint32(i) << 16))
		got := brainLayout.widen(uint16(i))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("%#x: got %g, want %g", i, got, want)
		}
	}
}

// TestHalfRounding checks that values between two neighbours round to the nearer one, and
// the middle to the even one.
func TestHalfRounding(t *testing.T) {
	for _, l := range []format16{halfLayout, brainLayout} {
		for h := uint16(0); h+1 < l.infinity(); h++ {
			low, high := l.widen(h), l.widen(h+1)
			middle := low + (high-low)/2
			even := h + h&1
			for v, want := range map[float64]uint16{
				math.Nextafter(middle, 0):           h,
				middle:                              even,
				math.Nextafter(middle, math.Inf(1)): h + 1,
			} {
				if got := l.narrow(v); got != want {
					t.Fatalf("%v: %g between %#x and the next: got %#x, want %#x", l, v, h, got, want)
				}
				if got := l.narrow(-v); got != want|1<<15 {
					t.Fatalf("%v: -%g: got %#x", l, v, got)
				}
			}
		}
	}
}

// TestHalfParsesOnce parses numbers whose rounding depends on digits that a float64
// cannot represent.
func TestHalfParsesOnce(t *testing.T) {
	for text, want := range map[string]uint16{
		"1.00048828125":                     0x3c00, // the middle between 1 and the next: to even
		"1.000488281250000000000000000001":  0x3c01,
		"1.000488281249999999999999999999":  0x3c00,
		"1.00146484375":                     0x3c02, // the middle above 0x3c01: to even
		"1.001464843749999999999999999999":  0x3c01,
		"-1.001464843749999999999999999999": 0xbc01,
		"65519.99999999999999999999999":     0x7bff,
		"2.98023223876953125e-8":            0x0000, // half of the smallest
		"2.980232238769531250000000001e-8":  0x0001,
		"0x1.002p0":                         0x3c00,
		"1e-400":                            0x0000,
		"inf":                               0x7c00,
		"nan":                               0x7e00,
	} {
		if got, err := halfLayout.parse(text); err != nil || got != want {
			t.Errorf("%s: got %#x, %v, want %#x", text, got, err, want)
		}
	}
	for _, text := range []string{"65520", "-65520", "65520.0000000000000000001", "1e5", "1e400", "x", ""} {
		if got, err := halfLayout.parse(text); err == nil {
			t.Errorf("%s: accepted as %#x", text, got)
		}
	}
}
