package softgpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// printPTX has a kernel that prints a line of 8 bytes for each number below n,
// and one that fails an assertion.
const printPTX = `.version 8.0
.target sm_70
.address_size 64
.global .align 1 .b8 text[7] = {37, 48, 55, 100, 10, 0, 0};
.global .align 1 .b8 word[3] = {110, 111, 0};
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);

.visible .entry lines(.param .u32 n) {
	.local .align 8 .b8 args[8];
	.reg .b32 %r<4>;
	.reg .b64 %d<4>;
	.reg .pred %p;
	ld.param.u32 %r1, [n];
	mov.u32 %r2, 0;
	cvta.global.u64 %d1, text;
	cvta.local.u64 %d2, args;
again:
	st.local.u32 [args], %r2;
	{
	.param .b64 f;
	.param .b64 a;
	.param .b32 r;
	st.param.b64 [f], %d1;
	st.param.b64 [a], %d2;
	call (r), vprintf, (f, a);
	}
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p, %r2, %r1;
	@%p bra again;
	ret;
}

.visible .entry refuse() {
	.reg .b64 %d<2>;
	cvta.global.u64 %d1, word;
	{
	.param .b64 m;
	.param .b64 f;
	.param .b32 l;
	.param .b64 n;
	.param .b64 s;
	st.param.b64 [m], %d1;
	st.param.b64 [f], %d1;
	st.param.b32 [l], 3;
	st.param.b64 [n], %d1;
	st.param.b64 [s], 1;
	call __assertfail, (m, f, l, n, s);
	}
	ret;
}

.visible .entry nothing() { ret; }
`

// printRig returns a rig, its printing kernels, and a function that returns the
// standard output since its last call.
func printRig(t *testing.T, opts Options) (r *rig, f map[string]cu.Function, seen func() string) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = out
	t.Cleanup(func() { os.Stdout = stdout; out.Close() })
	r, f = newRig(t, opts), map[string]cu.Function{}
	m, err := r.ModuleLoadData(r.ctx, []byte(printPTX))
	r.ok(err)
	for _, name := range []string{"lines", "refuse", "nothing"} {
		f[name], err = r.ModuleGetFunction(r.ctx, m, name)
		r.ok(err)
	}
	before := 0
	return r, f, func() string {
		t.Helper()
		b, err := os.ReadFile(out.Name())
		r.ok(err)
		b = b[before:]
		before += len(b)
		return string(b)
	}
}

// Output after a mark stays in the buffer, whatever was dropped in the
// meantime.
func TestPrintfMark(t *testing.T) {
	_, _, seen := printRig(t, Options{})
	var p printfBuffer
	p.setLimit(3)
	step := func(what, want string, do func()) {
		t.Helper()
		if do(); seen() != want {
			t.Errorf("%s: not %q", what, want)
		}
	}
	p.add("a")
	mark := p.mark()
	p.add("b")
	step("before the mark", "a", func() { p.flushTo(mark) })
	step("the mark again", "", func() { p.flushTo(mark) })
	mark = p.mark()
	p.add("c")
	p.add("d")
	p.add("e") // replaces b
	step("what was at the mark is gone", "", func() { p.flushTo(mark) })
	step("the rest", "cde", p.flush)
}

// numbers returns the lines that kernel lines prints for from to to-1.
func numbers(from, to int) string {
	var s strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&s, "%07d\n", i)
	}
	return s.String()
}

// The calls that the programming guide lists write the output. It is not
// written before.
func TestPrintfIsFlushed(t *testing.T) {
	for name, call := range map[string]func(r *rig, f map[string]cu.Function){
		"CtxSynchronize":    func(r *rig, _ map[string]cu.Function) { r.ok(r.CtxSynchronize(r.ctx)) },
		"StreamSynchronize": func(r *rig, _ map[string]cu.Function) { r.sync(0) },
		"EventSynchronize": func(r *rig, _ map[string]cu.Function) {
			e := r.event()
			r.ok(r.EventRecord(r.ctx, e, 0))
			r.ok(r.EventSynchronize(r.ctx, e))
		},
		"LaunchKernel": func(r *rig, f map[string]cu.Function) { r.ok(r.run(f["nothing"], 1, 1, 0)) },
		"MemcpyDtoH":   func(r *rig, _ map[string]cu.Function) { r.ok(r.MemcpyDtoH(r.ctx, ptr(make([]byte, 4)), r.alloc(4), 4)) },
		"LaunchHostFunc": func(r *rig, _ map[string]cu.Function) {
			done := make(chan struct{})
			r.ok(r.LaunchHostFunc(r.ctx, 0, func() { close(done) }))
			<-done
		},
		"ModuleLoadData": func(r *rig, _ map[string]cu.Function) {
			_, err := r.ModuleLoadData(r.ctx, []byte(printPTX))
			r.ok(err)
		},
		"DevicePrimaryCtxReset": func(r *rig, _ map[string]cu.Function) { r.ok(r.DevicePrimaryCtxReset(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			r, f, seen := printRig(t, Options{})
			r.ok(r.run(f["lines"], 1, 1, 0, uint32(3)))
			for err := error(cu.ErrorNotReady); err != nil; {
				if err = r.StreamQuery(r.ctx, 0); err != nil && !errors.Is(err, cu.ErrorNotReady) {
					t.Fatal(err)
				}
			}
			if got := seen(); got != "" {
				t.Errorf("there was %q before", got)
			}
			call(r, f)
			if got, want := seen(), numbers(0, 3); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// If the output is longer than the limit, its newest part is kept.
func TestPrintfOverwrites(t *testing.T) {
	for _, s := range []Schedule{Eager, Lazy, Random} {
		r, f, seen := printRig(t, Options{Schedule: s, Seed: 7})
		r.ok(r.CtxSetLimit(r.ctx, cu.LimitPrintfFIFOSize, 800))
		r.ok(r.run(f["lines"], 1, 1, 0, uint32(1000)))
		r.sync(0)
		if got, want := seen(), numbers(900, 1000); got != want {
			t.Errorf("%v: got %q, want %q", s, got, want)
		}
		r.ok(r.run(f["lines"], 1, 1, 0, uint32(100)))
		r.sync(0)
		if got, want := seen(), numbers(0, 100); got != want {
			t.Errorf("%v: got %q, want %q", s, got, want)
		}
		r.ok(r.CtxSetLimit(r.ctx, cu.LimitPrintfFIFOSize, 0))
		r.ok(r.run(f["lines"], 1, 1, 0, uint32(10)))
		r.sync(0)
		if got := seen(); got != "" {
			t.Errorf("%v: with a limit of 0: %q", s, got)
		}
	}
}

// If a line is longer than the limit, its end is kept.
func TestPrintfCutsLongLines(t *testing.T) {
	var p printfBuffer
	p.setLimit(4)
	p.add("ab")
	p.add("cdefgh")
	if got := strings.Join(p.lines, "|"); got != "efgh" || p.bytes.Load() != 4 {
		t.Errorf("%q is left, of %d bytes", got, p.bytes.Load())
	}
	p.add("ij")
	if got := strings.Join(p.lines, "|"); got != "ij" {
		t.Errorf("%q is left", got)
	}
}

// The assertion message is written by the call that returns the error.
func TestAssertionIsPrinted(t *testing.T) {
	r, f, seen := printRig(t, Options{})
	r.ok(r.run(f["refuse"], 1, 1, 0))
	r.want(cu.ErrorAssert, r.StreamSynchronize(r.ctx, 0))
	if got, want := seen(), "no:3: no: block: [0,0,0], thread: [0,0,0] Assertion `no` failed.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
