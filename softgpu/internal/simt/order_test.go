package simt

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/differ/permute"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/internal/test/workload"
	"github.com/ferrygpu/ferry/ptx"
)

// orderProgram has a loop whose tail stands above its head. tail is executed after head,
// with the address of the output in %d1 and the round in %r2. functions stand before it.
func orderProgram(functions, head, tail string) string {
	return `.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 table[4] = {11, 12, 13, 14};
.shared .align 16 .b8 first[64];
.shared .align 16 .b8 second[64];
` + functions + `
.visible .entry k(.param .u64 out, .param .u32 n, .param .align 8 .b8 rest[16])
{
	.reg .pred %p<4>;
	.reg .b16 %h<4>;
	.reg .b32 %r<16>;
	.reg .b64 %d<16>;
	.reg .v2 .b32 %v;
	.local .align 8 .b8 own[16];
	ld.param.u64 %d1, [out];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, 0;
	bra.uni HEAD;
TAIL:
	` + tail + `
	st.global.u32 [%d1], %r9;
	add.u64 %d1, %d1, 4;
	add.u32 %r2, %r2, 1;
HEAD:
	` + head + `
	setp.lt.u32 %p1, %r2, %r1;
	@%p1 bra TAIL;
	ret;
}
`
}

// aboveTests are values that are used above their definition. Each result is that of all rounds.
var aboveTests = []struct {
	name, functions, head, tail string
	want                        uint32
}{
	{"a number", "", "mov.u32 %r3, 70;", "mov.u32 %r9, %r3;", 70},
	{"a number that is added", "", "mov.u32 %r3, 70;", "add.u32 %r9, %r3, 5;", 75},
	{"a float", "", "mov.f32 %r3, 0f40000000;", "cvt.rni.u32.f32 %r9, %r3;", 2},
	{"a sum", "", "add.u32 %r3, %r1, 30;", "add.u32 %r9, %r3, 1;", 34},
	{"two definitions", "", "mov.u32 %r3, 7; mov.u32 %r3, 9;", "add.u32 %r9, %r3, 1;", 10},
	{"a definition under a predicate", "", "setp.eq.u32 %p2, %r1, 3; @%p2 mov.u32 %r3, 8;", "add.u32 %r9, %r3, 1;", 9},
	{"a parameter", "", "ld.param.u32 %r3, [n];", "add.u32 %r9, %r3, 40;", 43},
	{"a vector of a parameter", "", "ld.param.v2.u32 {%r3, %r4}, [rest+8];", "add.u32 %r9, %r3, %r4;", 6},
	{"a part of a vector that is written twice", "", "mov.u32 %r4, 1; ld.param.v2.u32 {%r3, %r4}, [rest+8];", "shl.b32 %r9, %r4, %r3;", 16},
	{"the address of a variable", "", "mov.u64 %d2, table;", "ld.global.u32 %r9, [%d2+8];", 13},
	{"a generic address", "", "cvta.global.u64 %d2, table;", "ld.u32 %r9, [%d2+4];", 12},
	{"an address that is converted twice", "", "mov.u64 %d3, table; cvta.global.u64 %d2, %d3; cvta.to.global.u64 %d4, %d2;", "ld.global.u32 %r9, [%d4];", 11},
	{"an address in shared memory", "", "mov.u32 %r3, second; st.shared.u32 [second], 21;", "ld.shared.u32 %r9, [%r3];", 21},
	{"a generic address in shared memory", "", "cvta.shared.u64 %d2, first; st.shared.u32 [first], 22;", "ld.u32 %r9, [%d2];", 22},
	{"an address in local memory", "", "mov.u64 %d2, own; st.local.u32 [own], 23;", "ld.local.u32 %r9, [%d2];", 23},
	{"a special register of the launch", "", "mov.u32 %r3, %ntid.x;", "add.u32 %r9, %r3, 1;", 2},
	{"a special register of the thread", "", "mov.u32 %r3, %tid.x;", "add.u32 %r9, %r3, 1;", 1},
	{"a special register that changes", "", "mov.u64 %d2, %clock64;", "setp.ne.u64 %p2, %d2, 0; selp.u32 %r9, 1, 0, %p2;", 1},
	{"a part of a vector register", "", "mov.u32 %v.y, 31;", "add.u32 %r9, %v.y, 1;", 32},
	{"copies of copies", "", "mov.u32 %r3, 51; mov.b32 %r4, %r3; mov.b32 %r5, %r4;", "add.u32 %r9, %r5, 1;", 52},
	{"copies of copies from below", "", "bra.uni THIRD; FIRST: mov.b32 %r5, %r4; bra.uni END; SECOND: mov.b32 %r4, %r3; bra.uni FIRST; THIRD: mov.u32 %r3, 51; bra.uni SECOND; END:",
		"add.u32 %r9, %r5, 1;", 52},
	{"a copy of what is no constant", "", "mov.b32 %r4, %r2; mov.b32 %r5, %r4;", "sub.u32 %r9, %r5, %r2;", 0},
	{"the address of a function", ".func (.param .u32 r) double(.param .u32 a) { .reg .b32 %x<2>; ld.param.u32 %x1, [a]; add.u32 %x1, %x1, %x1; st.param.u32 [r], %x1; ret; }",
		"mov.u64 %d2, double;", "{ .param .u32 a; .param .u32 r; st.param.u32 [a], 41; proto: .callprototype (.param .u32 _) _ (.param .u32 _); call (r), %d2, (a), proto; ld.param.u32 %r9, [r]; }", 82},
	{"an argument in a register", ".func (.reg .u32 r) twice(.reg .u32 a) { add.u32 r, a, a; ret; }", "mov.u32 %r3, 21;", "call (%r9), twice, (%r3);", 42},
	{"a result in a register", ".func (.reg .u32 r) seven() { mov.u32 r, 7; ret; }", "", "call (%r9), seven;", 7},
	{"a shift", "", "mov.u32 %r3, 3;", "shl.b32 %r9, %r3, %r3;", 24},
	{"a vector that is stored", "", "mov.u32 %r3, 61; mov.u32 %r4, 62;", "st.local.v2.u32 [own], {%r3, %r4}; ld.local.u32 %r9, [own+4];", 62},
	{"a vector that is packed", "", "bra.uni LOW; PACK: mov.b64 %d2, {%r3, %r4}; bra.uni END; LOW: mov.u32 %r3, 64; mov.u32 %r4, 1; bra.uni PACK; END:", "shr.u64 %d3, %d2, 32; cvt.u32.u64 %r5, %d3; cvt.u32.u64 %r9, %d2; add.u32 %r9, %r9, %r5;", 65},
	{"a parameter at an address in a register", "", "bra.uni AT; LOAD: ld.param.u32 %r3, [%d2+12]; bra.uni END; AT: mov.u64 %d2, rest; bra.uni LOAD; END:", "add.u32 %r9, %r3, 1;", 5},
	{"a store under a predicate", "", "mov.u32 %r3, 63; setp.eq.u32 %p2, %r1, 3;", "mov.u32 %r9, 0; @%p2 st.local.u32 [own], %r3; ld.local.u32 %r9, [own];", 63},
}

// TestUseBeforeDefinition: a use may stand above the definition of its register.
func TestUseBeforeDefinition(t *testing.T) {
	for _, c := range aboveTests {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			m := load(t, newSpace(), "order.ptx", orderProgram(c.functions, c.head, c.tail))
			out := put(m.mem, []uint32{0xbad, 0xbad, 0xbad, 0xbad})
			mustRun(t, m.launch(t, "k", 1, 1, out, uint32(3), bytesOf([]uint32{0, 0, 2, 4})))
			want := []uint32{c.want, c.want, c.want, 0xbad}
			if got := valuesOf[uint32](out.Data); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestOrderOfSharedVariables: shared variables lie in the order of their declarations,
// whichever the code names first.
func TestOrderOfSharedVariables(t *testing.T) {
	for _, head := range []string{"mov.u32 %r3, first; mov.u32 %r4, second;", "mov.u32 %r4, second; mov.u32 %r3, first;", "st.shared.u32 [second], 1; mov.u32 %r4, second; mov.u32 %r3, first;"} {
		m := load(t, newSpace(), "order.ptx", orderProgram("", head, "sub.u32 %r9, %r4, %r3;"))
		out := put(m.mem, []uint32{0})
		mustRun(t, m.launch(t, "k", 1, 1, out, uint32(1), bytesOf([]uint32{0, 0, 2, 4})))
		if got := valuesOf[uint32](out.Data)[0]; got != 64 {
			t.Errorf("%s: the second variable lies %d bytes after the first, want 64", head, got)
		}
	}
}

// TestDroppedInstructions: an instruction that needs no code counts where it stands. So the
// count is the same when blocks stand in another order.
func TestDroppedInstructions(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       uint64
	}{
		{"before a loop", "mov.u32 %r1, 0; mov.u32 %r3, 7; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 10; @%p1 bra L; ret;", 2 + 30 + 1},
		{"only they are before a loop", "bra.uni M; M: mov.u32 %r3, 7; mov.u32 %r4, 8; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 10; @%p1 bra L; ret;", 3 + 30 + 1},
		{"behind a branch", "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 10; @!%p1 bra E; mov.u32 %r3, 7; bra.uni L; E: ret;", 30 + 18 + 1},
		{"behind a branch and before a label", "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 10; @!%p1 bra M; mov.u32 %r3, 7; M: @%p1 bra L; ret;", 30 + 9 + 10 + 1},
		{"at the end", "mov.u32 %r3, 7;", 1},
	} {
		m := load(t, newSpace(), "", ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<10>;\n.reg .pred %p<2>;\n"+c.body+"\n}\n")
		if got := mustRun(t, m.launch(t, "k", 1, 32)).WarpInstructions; got != c.want {
			t.Errorf("%s: %d instructions, want %d", c.name, got, c.want)
		}
	}
}

// TestFirstUseOfVariable: the error for a variable without an address names the first
// instruction in the text that uses it.
func TestFirstUseOfVariable(t *testing.T) {
	m := load(t, newSpace(), "order.ptx", orderProgram("", "mov.u64 %d2, table;", "ld.global.u32 %r9, [table+4];"))
	k := m.Bind(nil).Kernel("k")
	if k.Unsupported == nil || !strings.Contains(k.Unsupported.Error(), "order.ptx:21:") || !strings.Contains(k.Unsupported.Error(), "ld.global.u32: variable table has no address") {
		t.Errorf("got %v", k.Unsupported)
	}
}

// TestExitOpensBarrier: the exit of some lanes opens a barrier at which the rest of their
// warp waits.
func TestExitOpensBarrier(t *testing.T) {
	m := load(t, newSpace(), "", `.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out) {
	.reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<2>;
	ld.param.u64 %d1, [out];
	mov.u32 %r1, %tid.x;
	bra.uni START;
WAIT:
	bar.sync 0;
	st.global.u32 [%d1], 5;
	ret;
START:
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra WAIT;
	add.u32 %r2, %r1, 1;
	ret;
	bar.sync 0; // no lane comes here
	ret;
}
`)
	out := put(m.mem, []uint32{0})
	mustRun(t, m.launch(t, "k", 1, 32, out))
	if got := valuesOf[uint32](out.Data)[0]; got != 5 {
		t.Errorf("got %d, want 5", got)
	}
}

// TestCallsMeet: lanes that come to one call at different times meet at an instruction for
// the whole warp within the function.
func TestCallsMeet(t *testing.T) {
	m := load(t, newSpace(), "", `.version 8.0
.target sm_75
.address_size 64
.func (.param .u32 r) votes(.param .u32 a) {
	.reg .b32 %r<4>; .reg .pred %p<2>;
	ld.param.u32 %r1, [a];
	setp.lt.u32 %p1, %r1, 10;
	vote.sync.ballot.b32 %r2, %p1, -1;
	st.param.u32 [r], %r2;
	ret;
}
.visible .entry k(.param .u64 out) {
	.reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<2>;
	ld.param.u64 %d1, [out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d2, %r1, 4;
	add.u64 %d1, %d1, %d2;
	bra.uni START;
CALL:
	{ .param .u32 a; .param .u32 r; st.param.u32 [a], %r3; call (r), votes, (a); ld.param.u32 %r4, [r]; }
	st.global.u32 [%d1], %r4;
	ret;
START:
	and.b32 %r2, %r1, 3;
	add.u32 %r3, %r1, 1;
	setp.eq.u32 %p1, %r2, 0;
	@%p1 bra CALL;
	setp.eq.u32 %p1, %r2, 2;
	@%p1 bra CALL;
	add.u32 %r3, %r1, 100;
	bra.uni CALL;
}
`)
	out := put(m.mem, make([]uint32, 32))
	mustRun(t, m.launch(t, "k", 1, 32, out))
	for i, got := range valuesOf[uint32](out.Data) {
		if want := uint32(0b101010101); got != want {
			t.Fatalf("lane %d: got %#b, want %#b", i, got, want)
		}
	}
}

// TestPressureInAnyOrder: what is known about a kernel does not depend on the order of its
// blocks in the text.
func TestPressureInAnyOrder(t *testing.T) {
	kernels := 0
	for _, file := range corpora {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		plain := decoded(t, string(text))
		for seed := range uint64(3) {
			permuted, _, err := permute.Blocks(string(text), seed)
			if err != nil {
				t.Fatal(err)
			}
			other := decoded(t, permuted)
			for name, want := range plain.kernels {
				kernels++
				got := other.Kernel(name)
				if got.Registers != want.Registers || got.SharedBytes != want.SharedBytes || got.LocalBytes != want.LocalBytes || got.Barriers != want.Barriers || got.Heap != want.Heap {
					t.Errorf("%s in order %d: %d registers, %d bytes shared, %d local, %d barriers, heap %v, want %d, %d, %d, %d, %v", name, seed,
						got.Registers, got.SharedBytes, got.LocalBytes, got.Barriers, got.Heap, want.Registers, want.SharedBytes, want.LocalBytes, want.Barriers, want.Heap)
				}
			}
		}
	}
	if kernels == 0 {
		t.Error("no kernel was compared")
	}
}

func decoded(t *testing.T, text string) *Program {
	t.Helper()
	m, err := ptx.Parse("", text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPressureOfLargeFunctions: a function that is too large for the paths of its branches
// has an estimate from its text.
func TestPressureOfLargeFunctions(t *testing.T) {
	registers := ""
	for i := range 64 * 64 {
		registers += fmt.Sprintf("mov.u32 %%x%d, 1; ", i)
	}
	// By paths %r1 has a value from the beginning, in the text from where it is named.
	const end = "bra e; mov.u32 %r3, 1; mov.u32 %r4, %r3; e: mov.u32 %r2, %r1; mov.u32 %r5, %r2; ret;"
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"neither":            {"mov.u32 %r3, 1; mov.u32 %r4, %r3; " + end, 3},
		"tables of branches": {"t: .branchtargets " + strings.Repeat("e, ", 1000) + "e; " + strings.Repeat("brx.idx 0, t; ", 300) + end, 3},
		"blocks":             {registers + strings.Repeat("@%p1 bra e; ", livenessWords/64) + end, 2},
	} {
		p := decoded(t, ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<10>, %x<5000>;\n.reg .pred %p<2>;\n"+c.body+"\n}\n")
		if got := p.Kernel("k").Registers; got != c.want {
			t.Errorf("%s: %d registers, want %d", name, got, c.want)
		}
	}
}

// TestBlocksOfTables demands that branches of one table and its labels do not multiply.
func TestBlocksOfTables(t *testing.T) {
	const n = 300
	var labels, body strings.Builder
	for i := range n {
		fmt.Fprintf(&labels, "l%d, ", i)
		fmt.Fprintf(&body, "l%d: @%%p0 brx.idx %%r1, t; ", i)
	}
	p := decoded(t, ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<10>;\n.reg .pred %p<2>;\nt: .branchtargets "+
		labels.String()+"l0; "+body.String()+"ret;\n}\n")
	f, edges := p.funcs["k"], 0
	for _, b := range newFlow(f).blocks {
		edges += len(b.next)
		if len(b.next) > 2 && len(b.next) != n {
			t.Errorf("%d blocks follow a block", len(b.next))
		}
	}
	if edges != 3*n {
		t.Errorf("%d edges, want %d", edges, 3*n)
	}
	first := &f.code[0].table[0]
	for i := range n {
		if in := &f.code[i]; &in.table[0] != first || len(in.table) != n+1 || in.table[i] != int32(i) {
			t.Fatalf("branch %d has %d targets, of which number %d is %d", i, len(in.table), i, in.table[i])
		}
	}
}

// TestFindingsInAnyOrder: with the blocks in another order the check finds a race in the
// same kernels. One of them faults then, because of its race.
func TestFindingsInAnyOrder(t *testing.T) {
	sample.SkipRace(t)
	files, err := filepath.Glob("testdata/races/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatal("no kernels", err)
	}
	racy, right := 0, 0
	for _, file := range sample.Of(t, files, (len(files)+2)/3) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		permuted, _, err := permute.Blocks(string(text), permute.Reversed)
		if err != nil {
			t.Fatal(err)
		}
		m := load(t, newSpace(), file, permuted)
		for name := range m.kernels {
			if strings.HasPrefix(name, "racy_") && strings.Contains(name, "_init_") {
				continue // an mbarrier object is used before it is ready: a fault in this order
			}
			found := checkKernel(t, m, name)
			if want := strings.HasPrefix(name, "racy_"); want {
				racy++
				if len(found) == 0 {
					t.Errorf("%s: no race was found", name)
				}
			} else {
				right++
				for _, f := range found {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
	}
	t.Logf("%d kernels with a race, %d without", racy, right)
}

// TestTrafficInAnyOrder: launches move the same and compute the same with the blocks in
// another order. The threads of mandelbrot leave their loop one by one. With its exit above
// the loop they do not rejoin before they store, so that there are more transfers.
func TestTrafficInAnyOrder(t *testing.T) {
	permuted, _, err := permute.Blocks(workload.PTX, permute.Reversed)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workload.Small() {
		l, want := launchOf(t, w)
		plain := mustRun(t, l)
		l, got := launchText(t, w, permuted)
		other := mustRun(t, l)
		if fmt.Sprint(other.Traffic) != fmt.Sprint(plain.Traffic) && w.Kernel != "mandelbrot" {
			t.Errorf("%s moves %+v, want %+v", w.Kernel, other.Traffic, plain.Traffic)
		}
		for i := range want {
			if !slices.Equal(got[i].Data, want[i].Data) {
				t.Errorf("%s: buffer %d differs", w.Kernel, i)
			}
		}
	}
}
