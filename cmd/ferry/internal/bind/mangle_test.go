package bind

import (
	"strings"
	"testing"
)

// text returns a symbol as C.
func (s *symbol) text() string {
	var params []string
	for _, p := range s.params {
		params = append(params, p.String())
	}
	return s.path + s.args + "(" + strings.Join(params, ", ") + ")"
}

// TestSymbols reads the types that mangled names tell.
func TestSymbols(t *testing.T) {
	for name, want := range map[string]string{
		"_Z1kv":                                         "k()",
		"_Z5saxpyifPKfPf":                               "saxpy(int, float, const float *, float *)",
		"_ZN1a1b1kEPKPKfPPf":                            "a::b::k(const float *const *, float **)",
		"_Z1kahcstjlmxywbd":                             "k(signed char, unsigned char, char, short, unsigned short, unsigned int, long, unsigned long, long long, unsigned long long, wchar_t, bool, double)",
		"_Z1kPVKiPVi":                                   "k(const int *, int *)",
		"_Z1kPDhPDF16_PDF16bP6__halfPK7__half2":         "k(half *, _Float16 *, __bf16 *, __half *, const __half2 *)",
		"_Z1kPA4_A3_KfRA2_i":                            "k(const float (*)[4][3], int (&)[2])",
		"_Z1kPFviEOi":                                   "k(void (*)(int), int &)",
		"_Z1kIfLi4EEvPT_":                               "k<float, 4>(float *)",
		"_ZN2ns1kINS_3vecIfLi3EEEEEvPKT_":               "ns::k<ns::vec<float, 3>>(const ns::vec<float, 3> *)",
		"_Z1kIJidfEEvDpT_":                              "k<int, double, float>(int, double, float)",
		"_Z1kIJidfEEvDpPT_":                             "k<int, double, float>(?)",
		"_Z1kILb1ELb0ELin3ELc97EL5Color2ELy7EEvv":       "k<true, false, -3, (char)97, (Color)2, 7>()",
		"_Z1kSt6vectorIiSaIiEEPKSs":                     "k(std::vector<int, std::allocator<int>>, const std::string *)",
		"_Z1kIfENSt9enable_ifIXgtstT_Li2EEvE4typeEPS1_": "k<float>()", // an expression: only the name is read
		"_Z1kIXadL_Z1fvEEEvi":                           "_Z1kIXadL_Z1fvEEEvi()",
		"_Z1k3vecIVKiEPVKPi":                            "k(vec<const volatile int>, int *const *)",
		"_ZL1ki":                                        "k(int)",
		"_ZN12_GLOBAL__N_11kEi":                         "k(int)",
		"_Z1kN6ParamsUt_E":                              "k(Params::'unnamed')",
		"_Z1k1EPS_":                                     "k(E, E *)",
		"_Z1ki.cold":                                    "k(int)",
		"saxpy":                                         "saxpy()",
		"_Zgarbage":                                     "_Zgarbage()",
		"_Z":                                            "_Z()",
		"_ZTV1k":                                        "_ZTV1k()",
		"_Z1k" + strings.Repeat("P", 100000) + "i": "",
	} {
		s := readSymbol(name)
		if got := s.text(); got != want && want != "" {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

// TestDeclare writes declarations of names.
func TestDeclare(t *testing.T) {
	s := readSymbol("_Z1kiPKfPA4_A3_fPKPKdRA2_j6Params")
	for i, want := range []string{"int x", "const float *x", "float (*x)[4][3]", "const double *const *x", "unsigned int (&x)[2]", "Params x"} {
		if got := s.params[i].declare("x"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	a := &ctype{kind: array, n: 3, elem: scalar("float")}
	if a.String() != "float [3]" || a.declare("w") != "float w[3]" {
		t.Errorf("%s, %s", a, a.declare("w"))
	}
}

// TestSpelled reads types as they are written, where no compiler tells them.
func TestSpelled(t *testing.T) {
	for text, want := range map[string]string{
		"int n": "int", "const int n": "int", "unsigned n": "unsigned int", "long int n": "long", "unsigned long long int n": "unsigned long long",
		"short unsigned n": "unsigned short", "signed char c": "signed char", "char c": "char", "unsigned char c": "unsigned char", "signed s": "int",
		"size_t n": "unsigned long", "uint8_t *p": "unsigned char *", "const float *__restrict__ x": "const float *", "float const *const x": "const float *",
		"float x[]": "float *", "const double x[4]": "const double *", "float4 *p": "float4 *", "struct P p": "P", "ns::P *p": "ns::P *", "half *h": "half *", "__half h": "__half",
		"float **p": "float **", "void *p": "void *", "bool b": "bool", "volatile int *p": "int *",
		"vec<float> v": "", "float (*m)[4]": "", "int &r": "", "float m[4][5]": "", "auto x": "auto", "...": "",
	} {
		k := scan("__global__ void k(" + text + ") {}").kernels[0]
		got := ""
		if typ := spelledTypes(k.params)[0]; typ != nil {
			got = typ.String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// TestNames makes Go names.
func TestNames(t *testing.T) {
	for c, want := range map[string]string{
		"saxpy": "Saxpy rename", "vector_add": "VectorAdd", "_x": "X", "x2_3": "X2_3", "ns::scale<float, 4>": "NsScaleFloat4", "k<float*>": "KFloatPtr", "FFT": "FFT", "N": "N",
		"": "X", "_": "X", "3d": "X3d", "ärger": "Ärger", "世界": "X世界", "(anonymous namespace)::k": "AnonymousNamespaceK", "$x": "X",
	} {
		want, _, _ = strings.Cut(want, " ")
		if got := goName(c); got != want {
			t.Errorf("%q: got %q, want %q", c, got, want)
		}
	}
	for c, want := range map[string]string{"n": "n", "row_stride": "rowStride", "type": "type_", "func": "func_", "ferry": "ferry_", "ferrybind": "ferrybind_", "cu": "cu_", "N": "N", "Ax": "Ax", "_out": "out", "": "X", "nXy": "nXy", "range": "range_"} {
		if got := localName(c); got != want {
			t.Errorf("%q: got %q, want %q", c, got, want)
		}
	}
}

// FuzzSymbol: every name has a result, and the types can be written.
func FuzzSymbol(f *testing.F) {
	for _, s := range []string{"_Z5saxpyifPKfPf", "_ZN2ns1kINS_3vecIfLi3EEEEEvPKT_", "_Z1kPA4_A3_KfRA2_i", "_Z12ferry_bind_29ferry_tagI6ParamsJLy32ELy8EEES_IA3_fJLy12ELy4EEE", "_Z12ferry_bind_09ferry_tagIPFvifPKfPfEJEE"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s := readSymbol(name)
		s.text()
		if _, tags, ok := readTags(name); ok {
			for _, tag := range tags {
				readType(tag.typ).declare("x")
			}
			signatureAnswer(tags)
			layoutAnswer(tags, &srcRecord{fields: make([]srcField, len(tags))})
		}
	})
}
