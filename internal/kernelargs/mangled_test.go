package kernelargs

import (
	"testing"
)

// TestPointees: names as clang and nvcc make them.
func TestPointees(t *testing.T) {
	for name, want := range map[string]string{
		"_Z3addPfS_m":             "ff.",  // add(float*, float*, unsigned long)
		"_Z3addPKfS0_Pfm":         "fff.", // add(const float*, const float*, float*, unsigned long)
		"_Z3addPKfPKdPhm":         "fdh.", // three types
		"_ZN2ns5inner3addEPdS1_i": "dd.",  // ns::inner::add(double*, double*, int)
		"_Z3addIfEvPT_S1_":        "ff",   // add<float>(T*, T*)
		"_Z3addIfdEvPT_PKT0_i":    "fd.",  // add<float, double>(T*, const U*, int)
		"_Z3addP5ThingPf":         ".f",   // add(Thing*, float*)
		"_Z3addPPfS_":             ".f",   // add(float**, float*)
		"_Z3addPfPA4_f":           "f",    // an array ends it
		"_Z3addv":                 ".",    // no parameters
		"vector_add":              "", "_Z": "", "_Z99x": "", "_ZN": "", "_Z1aP": "", "_Z1aS_": "", "_Z1aPKS99999999_": "",
	} {
		got := pointees(name)
		text := ""
		for _, c := range got {
			if c == 0 || cNumbers[c].c == "" && c != 'h' {
				c = '.'
			}
			text += string(c)
		}
		if text != want {
			t.Errorf("%s: got %q, want %q", name, text, want)
		}
	}
}

// TestMismatch: only numbers of another size do not fit.
func TestMismatch(t *testing.T) {
	const kernel = "_Z3addPKfPhPjm"
	for _, c := range []struct {
		param  int
		buffer string
		want   string
	}{
		{0, "*ferry.Device[float64]", "float*"}, {0, "*ferry.Host[uint16]", "float*"}, {0, "*ferry.Device[float32]", ""},
		{0, "*ferry.Device[uint8]", ""}, {0, "*ferry.Device[[4]float64]", ""}, {0, "*ferry.Device[main.Pixel]", ""},
		{1, "*ferry.Device[float64]", ""}, {2, "*ferry.Device[int32]", ""}, {2, "*ferry.Device[int]", "unsigned int*"}, {3, "*ferry.Device[float64]", ""}, {9, "*ferry.Device[float64]", ""},
	} {
		if got := Mismatch(kernel, c.param, c.buffer); got != c.want {
			t.Errorf("parameter %d, %s: got %q, want %q", c.param, c.buffer, got, c.want)
		}
	}
}

// FuzzPointees: no name makes it fail or takes long.
func FuzzPointees(f *testing.F) {
	for _, s := range []string{"_Z3addPKfS0_Pfm", "_Z3addIfEvPT_S1_", "_ZN2ns5inner3addEPdS1_i"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) < 1<<16 {
			pointees(name)
		}
	})
}
