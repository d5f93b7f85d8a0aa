package simt

import "testing"

// TestLooksAt: a thread looks at what it loads if that decides what it does.
func TestLooksAt(t *testing.T) {
	for _, c := range []struct {
		body string
		want bool
	}{
		{"ld.relaxed.gpu.global.u32 a, [at]; ret;", false},
		{"ld.relaxed.gpu.global.u32 a, [at]; mov.u32 b, a; cvt.u64.u32 d, b; st.global.u64 [at], d; ret;", false},
		{"ld.relaxed.gpu.global.u32 a, [at]; st.shared.u32 [0], a; ret;", true},
		{"ld.relaxed.gpu.global.u64 d, [at]; st.global.u64 [d], d; ret;", true},
		{"ld.relaxed.gpu.global.u32 a, [at]; mov.u32 b, a; mov.u32 c, b; bar.sync c; ret;", true},
		{"ld.relaxed.gpu.global.u32 a, [at]; add.u32 b, a, 1; ret;", true},
		{"bra L; M: nanosleep b; ret; L: ld.relaxed.gpu.global.u32 a, [at]; mov.u32 b, a; bra M;", true},
		{"ld.relaxed.gpu.global.u32 a, [at]; mov.u32 r, a; ret;", true},
		{"ld.relaxed.gpu.global.u32 r, [at];", true},
		{"ld.relaxed.gpu.global.v2.u32 v, [at]; mov.v2.u32 {a, b}, v; st.global.u32 [at], a; ret;", false},
		{"ld.relaxed.gpu.global.v2.u32 v, [at]; mov.v2.u32 {a, b}, v; setp.eq.u32 p, b, 0; ret;", true},
		{"ld.relaxed.gpu.global.u32 a, [at]; call (b), f, (a, at); ret;", true},
		{"ld.relaxed.gpu.global.u32 a, [at]; call (a), f, (b, at); ret;", false},
		{"ld.relaxed.gpu.global.u32 a, [at]; bar.red.popc.u32 a, 0, p; ret;", false},
		{"ld.relaxed.gpu.global.u32 a, [at]; stackrestore.u32 a; ret;", true},
		{"t: .branchtargets L; ld.relaxed.gpu.global.u32 a, [at]; brx.idx a, t; L: ret;", true},
		{"g: .callprototype (.reg .u32 _) _ (.reg .u32 _, .reg .u64 _); ld.relaxed.gpu.global.u64 d, [at]; call (b), d, (c, at), g; ret;", true},
		{"g: .callprototype _ (); ld.relaxed.gpu.global.u64 d, [at]; call d, g; ret;", true},
		{"atom.global.add.u32 a, [at], 1; ret;", false},
		{"atom.global.add.u32 _, [at], 1; ret;", false},
		{"atom.global.add.u32 a, [at], 1; setp.eq.u32 p, a, 0; ret;", true},
		{"red.global.add.u64 [d], d; ret;", false},
	} {
		m := load(t, newSpace(), "", ".version 8.0\n.target sm_75\n.address_size 64\n.func (.reg .u32 r) f(.reg .u32 n, .reg .u64 at) {\n"+
			".reg .u32 a, b, c; .reg .u64 d; .reg .pred p; .reg .v2 .u32 v;\n"+c.body+"\n}\n.visible .entry k() { ret; }\n")
		f := m.Program.funcs["f"]
		for i := range f.src.Body {
			if in := &f.src.Body[i]; in.Op == "atom" || in.Op == "red" || in.Op == "ld" {
				if got := f.looksAt(in); got != c.want {
					t.Errorf("%s: got %v, want %v", c.body, got, c.want)
				}
			}
		}
	}
}
