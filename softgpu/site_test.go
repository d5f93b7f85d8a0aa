package softgpu

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestSites: a finding names the lines that queued both sides, in a graph the lines that were
// captured; of one launch it names the line once.
func TestSites(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports these wrong programs, too")
	}
	queue := func(x *betweenRig, a, b cu.Stream) (put, other int) {
		_, _, put, _ = runtime.Caller(0)
		x.ok(x.LaunchKernel(x.ctx, x.k["put"], one, one, 0, a, params(x.p)))
		_, _, other, _ = runtime.Caller(0)
		x.ok(x.MemsetD8Async(x.ctx, x.p, 1, 4, b))
		return put + 1, other + 1
	}
	for _, s := range []Schedule{Eager, Lazy} {
		x := newBetweenRig(t, s)
		put, fill := queue(x, x.a, x.b)
		testSites(t, x, "race between a launch and a fill", put, fill)

		x = newBetweenRig(t, s)
		x.graph(func(a, b cu.Stream) { put, fill = queue(x, a, b) })
		testSites(t, x, "race between a launch and a fill", put, fill)
	}

	r := newRig(t, Options{Check: "races"})
	m, err := r.ModuleLoadData(r.ctx, []byte(checkedPTX))
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, "load")
	r.ok(err)
	p := r.alloc(4096)
	_, _, line, _ := runtime.Caller(0)
	r.ok(r.LaunchKernel(r.ctx, f, one, one, 0, 0, params(p, p+2048)))
	r.ok(r.CtxSynchronize(r.ctx))
	found := r.Findings()
	if len(found) != 1 || !strings.Contains(found[0].String(), fmt.Sprintf("\n  launched at %s", siteAt(line+1))) {
		t.Errorf("found %v, want one, launched at line %d", found, line+1)
	}
}

func testSites(t *testing.T, x *betweenRig, kind string, put, fill int) {
	t.Helper()
	x.ok(x.CtxSynchronize(x.ctx))
	found := x.Findings()
	if len(found) != 1 || found[0].Kind != kind {
		t.Fatalf("found %v, want one %s", found, kind)
	}
	text := found[0].String()
	for _, want := range []string{", launched at " + siteAt(put), ", at " + siteAt(fill)} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

// siteAt returns a line of this file as reports write it.
func siteAt(line int) string {
	_, file, _, _ := runtime.Caller(0)
	return fmt.Sprintf("%s:%d", file, line)
}
