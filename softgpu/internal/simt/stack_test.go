package simt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// deepest returns the deepest recursion of a kernel that its stack allows, looking at depths
// around a guess, and the fault of the next one.
func deepest(t *testing.T, m *module, kernel string, limit, from, to int) (int, *cu.Fault) {
	t.Helper()
	out := put(m.mem, make([]uint32, 32))
	for depth := from; depth <= to; depth++ {
		l := m.launch(t, kernel, 1, 1, out, depth)
		l.StackBytes = limit
		if _, err := Run(context.Background(), l); err != nil {
			f, ok := errors.AsType[*cu.Fault](err)
			if !ok {
				t.Fatalf("%s at depth %d: %v", kernel, depth, err)
			}
			return depth - 1, f
		}
	}
	return to, nil
}

// TestStackOfHardware compares the depth of recursions with what a GPU did: never deeper, and
// not much less deep. docs/softgpu/differential.md has the bound. The recursions are drawn.
func TestStackOfHardware(t *testing.T) {
	sample.SkipRace(t)
	text, err := os.ReadFile("testdata/stack/recursions.txt")
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]*module{}
	exact, all := 0, 0
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line[0] != '#' {
			lines = append(lines, line)
		}
	}
	for _, line := range sample.Of(t, lines, 20) {
		var file, kernel, want string
		var limit int
		if _, err := fmt.Sscan(line, &file, &kernel, &limit, &want); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if modules[file] == nil {
			modules[file] = loadFile(t, newSpace(), "stack/"+file)
		}
		m := modules[file]
		if want == "any" {
			if got, f := deepest(t, m, kernel, limit, 20, 24); f != nil {
				t.Errorf("%s with %d bytes: fails at depth %d, a GPU at none: %v", kernel, limit, got+1, f)
			}
			continue
		}
		var deep int
		fmt.Sscan(want, &deep)
		least := (deep+1)*5/7 - 2
		got, f := deepest(t, m, kernel, limit, max(least+1, 0), deep+1)
		all++
		if got == deep {
			exact++
		}
		switch {
		case f == nil:
			t.Errorf("%s with %d bytes: depth %d succeeds, on a GPU %d is the deepest", kernel, limit, deep+1, deep)
		case got <= least:
			t.Errorf("%s with %d bytes: fails at depth %d, on a GPU %d is the deepest", kernel, limit, got+1, deep)
		case f.Result != cu.ErrorIllegalAddress || !strings.Contains(f.Why, "stack overflow: ") || !strings.Contains(f.Why, "cu.LimitStackSize"):
			t.Errorf("%s: %+v", kernel, *f)
		}
	}
	t.Logf("%d of %d depths are those of the GPU", exact, all)
	if sample.Full() && (all < 70 || exact < 54) {
		t.Errorf("%d of %d depths are those of the GPU", exact, all)
	}
}

// stackSource has calls whose depth is known: none recurses.
const stackSource = `.version 8.0
.target sm_75
.address_size 64
.func (.param .b32 r) large(.param .b32 n) {
	.reg .b32 %r<4>;
	.local .align 4 .b8 a[4096];
	ld.param.u32 %r1, [n];
	st.local.u32 [a+4092], %r1;
	ld.local.u32 %r2, [a+4092];
	st.param.b32 [r], %r2;
	ret;
}
.func (.param .b32 r) loop(.param .b32 n) {
	.reg .b32 %r<4>;
	.reg .pred %p<2>;
	ld.param.u32 %r1, [n];
	mov.u32 %r2, 7;
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra end;
	sub.u32 %r1, %r1, 1;
	{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), loop, (p); ld.param.b32 %r2, [q]; }
end:
	st.param.b32 [r], %r2;
	ret;
}
.visible .entry known(.param .u64 out, .param .u32 n) {
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [n];
	{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), large, (p); ld.param.b32 %r2, [q]; }
	st.global.u32 [%rd1], %r2;
	ret;
}
.visible .entry pointer(.param .u64 out, .param .u32 n) {
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [n];
	mov.u64 %rd3, large;
	{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1;
	prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
	call (q), %rd3, (p), prototype; ld.param.b32 %r2, [q]; }
	st.global.u32 [%rd1], %r2;
	ret;
}
.visible .entry recursive(.param .u64 out, .param .u32 n) {
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [n];
	{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), loop, (p); ld.param.b32 %r2, [q]; }
	st.global.u32 [%rd1], %r2;
	ret;
}
.visible .entry both(.param .u64 out, .param .u32 n) {
	.reg .b32 %r<4>;
	ld.param.u32 %r1, [n];
	{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), loop, (p); }
	{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), large, (p); }
	ret;
}
.visible .entry twice(.param .u64 out, .param .u32 n) {
	.reg .b64 %rd<4>;
	.reg .b32 %r<4>;
	ld.param.u32 %r1, [n];
	cvt.u64.u32 %rd1, %r1;
	alloca.u64 %rd2, %rd1, 8;
	alloca.u64 %rd3, %rd1, 8;
	ret;
}`

// TestStackKnown: a kernel whose calls have a known depth has no limit, also through a pointer
// to a function that does not recurse. A kernel beside it that recurses has one.
func TestStackKnown(t *testing.T) {
	m := load(t, newSpace(), "stack.ptx", stackSource)
	for _, kernel := range []string{"known", "pointer"} {
		if _, f := deepest(t, m, kernel, 16, 1, 3); f != nil {
			t.Errorf("%s: %v", kernel, f)
		}
	}
	if got, f := deepest(t, m, "recursive", 160, 1, 20); f == nil || got != 9 {
		t.Errorf("ten frames of 16 bytes fit into 160, got depth %d, %v", got, f)
	}
	if _, f := deepest(t, m, "both", 4096, 1, 1); f == nil {
		t.Error("a kernel that recurses has no room for a frame of 4160 bytes in 4096")
	}
	if got, f := deepest(t, m, "twice", 1024, 510, 514); f == nil || got != 512 {
		t.Errorf("two blocks of 512 bytes fit into 1024, got %d, %v", got, f)
	}
	if got, f := deepest(t, m, "recursive", 0, 4000, 4001); f != nil {
		t.Errorf("without a limit depth %d fails: %v", got+1, f)
	}
}

// TestStackOfRegisterResults: the result of a call that is a register is not saved over the
// call, but under a predicate its old value is. Arguments that are used later are saved.
func TestStackOfRegisterResults(t *testing.T) {
	for body, want := range map[string]int{
		"call (r), f, (a); ret;":                                  0,
		"call (b), f, (a); mov.u32 r, b; ret;":                    0,
		"call (b), f, (a); add.u32 r, b, a; ret;":                 1,
		"mov.u32 b, a; @p call (b), f, (a); mov.u32 r, b; ret;":   1,
		"call (b), f, (a); call (r), f, (a); ret;":                1,
		"call (b), f, (a); call (r), f, (b); ret;":                0,
		"@p call (b), f, (a); call (r), f, (a); add.u32 r, r, b;": 2,
		"call (r), f, (a); @p mov.u32 r, 1;":                      1,
	} {
		m := load(t, newSpace(), "", ".version 8.0\n.target sm_75\n.address_size 64\n.func (.reg .u32 r) f(.reg .u32 a) { .reg .u32 b; .reg .pred p;\n"+body+"\n}\n"+
			".visible .entry k() { .reg .u32 v; call (v), f, (1); ret; }\n")
		if got, _ := m.Program.funcs["f"].savedOverCalls(); got != want {
			t.Errorf("%s: %d words are saved, want %d", body, got, want)
		}
	}
}
