package softgpu

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/checks"
)

// TestSites: a finding names the lines that queued both sides, in a graph the lines of the
// capture; of one launch it names the line once.
func TestSites(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports these wrong programs, too")
	}
	for _, c := range []struct {
		kind  string
		queue func(x *betweenRig, a, b cu.Stream) (put, other int)
	}{
		{"race between a launch and a fill", func(x *betweenRig, a, b cu.Stream) (put, other int) {
			_, _, put, _ = runtime.Caller(0)
			x.ok(x.LaunchKernel(x.ctx, x.k["put"], one, one, 0, a, params(x.p)))
			_, _, other, _ = runtime.Caller(0)
			x.ok(x.MemsetD8Async(x.ctx, x.p, 1, 4, b))
			return put + 1, other + 1
		}},
		{"race between a launch and a copy", func(x *betweenRig, a, b cu.Stream) (put, other int) {
			_, _, put, _ = runtime.Caller(0)
			x.ok(x.LaunchKernel(x.ctx, x.k["put"], one, one, 0, a, params(x.p)))
			_, _, other, _ = runtime.Caller(0)
			x.ok(x.MemcpyDtoDAsync(x.ctx, x.q, x.p, 4, b))
			return put + 1, other + 1
		}},
	} {
		for _, s := range []Schedule{Eager, Lazy} {
			x := newBetweenRig(t, s)
			put, other := c.queue(x, x.a, x.b)
			testSites(t, x, c.kind, put, other)

			x = newBetweenRig(t, s)
			x.graph(func(a, b cu.Stream) { put, other = c.queue(x, a, b) })
			testSites(t, x, c.kind, put, other)
		}
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

// TestSitesOfParams: a node of a graph that gets other parameters keeps the line of its capture.
func TestSitesOfParams(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports this wrong program, too")
	}
	x := newBetweenRig(t, Eager)
	x.ok(x.StreamBeginCapture(x.ctx, x.a, cu.StreamCaptureModeRelaxed))
	_, _, put, _ := runtime.Caller(0)
	x.ok(x.LaunchKernel(x.ctx, x.k["put"], one, one, 0, x.a, params(x.q)))
	g, err := x.StreamEndCapture(x.ctx, x.a)
	x.ok(err)
	gx, err := x.GraphInstantiate(x.ctx, g, 0)
	x.ok(err)
	nodes, err := x.GraphGetNodes(g)
	x.ok(err)
	x.ok(x.GraphExecKernelNodeSetParams(x.ctx, gx, nodes[0], x.k["put"], one, one, 0, params(x.p)))
	x.ok(x.GraphLaunch(x.ctx, gx, x.a))
	_, _, fill, _ := runtime.Caller(0)
	x.ok(x.MemsetD8Async(x.ctx, x.p, 1, 4, x.b))
	testSites(t, x, "race between a launch and a fill", put+1, fill+1)
}

// TestNoSite: of a launch that no program's code has made there is no line.
func TestNoSite(t *testing.T) {
	r := newRig(t, Options{Check: "races"})
	m, err := r.ModuleLoadData(r.ctx, []byte(checkedPTX))
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, "load")
	r.ok(err)
	p := r.alloc(4096)
	go r.Driver.LaunchKernel(r.ctx, f, one, one, 0, 0, params(p, p+2048)) // the first function of its goroutine
	for begun := time.Now(); len(r.Findings()) == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the uninitialized read is not reported")
		}
	}
	r.ok(r.CtxSynchronize(r.ctx))
	if found := r.Findings()[0]; found.Second.At != "" || strings.Contains(found.String(), "launched at") {
		t.Errorf("the report has a line: %v", &found)
	}
}

// TestEachSite: each line that makes a wrong launch is reported, also if the kernel is the same.
func TestEachSite(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports this wrong program, too")
	}
	report := filepath.Join(t.TempDir(), "report")
	t.Setenv(checks.ReportVariable, report)
	x := newBetweenRig(t, Eager)
	var first, second int
	for range 3 {
		x.launch("put", x.a, x.p)
		_, _, first, _ = runtime.Caller(0)
		x.ok(x.LaunchKernel(x.ctx, x.k["put"], one, one, 0, x.b, params(x.p)))
		x.ok(x.CtxSynchronize(x.ctx))
		x.launch("put", x.a, x.p)
		_, _, second, _ = runtime.Caller(0)
		x.ok(x.LaunchKernel(x.ctx, x.k["put"], one, one, 0, x.b, params(x.p)))
		x.ok(x.CtxSynchronize(x.ctx))
	}
	if found := x.Findings(); len(found) != 2 || found[0].Count != 3 || found[1].Count != 3 {
		t.Errorf("found %v, want two, three times each", found)
	}
	text, err := os.ReadFile(report)
	if err != nil || strings.Count(string(text), `"count":`) != 2 || !strings.Contains(string(text), siteAt(first+1)) || !strings.Contains(string(text), siteAt(second+1)) {
		t.Errorf("the file has %s (%v), want rows for lines %d and %d", text, err, first+1, second+1)
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
	return fmt.Sprintf("site_test.go:%d", line)
}

// TestAllocationSite: the report of a read of memory that nothing wrote names the line that
// allocated it, also of pool memory and of small memory in a shared slab.
func TestAllocationSite(t *testing.T) {
	for _, pool := range []bool{false, true} {
		r := newRig(t, Options{Check: "races"})
		m, err := r.ModuleLoadData(r.ctx, []byte(checkedPTX))
		r.ok(err)
		f, err := r.ModuleGetFunction(r.ctx, m, "load")
		r.ok(err)
		out := r.alloc(4096)
		_, _, line, _ := runtime.Caller(0)
		p, err := r.MemAlloc(r.ctx, 400)
		if pool {
			_, _, line, _ = runtime.Caller(0)
			p, err = r.MemAllocAsync(r.ctx, 400, 0)
		}
		r.ok(err)
		r.ok(r.LaunchKernel(r.ctx, f, one, one, 0, 0, params(p, out)))
		r.ok(r.CtxSynchronize(r.ctx))
		found := r.Findings()
		if want := siteAt(line + 1); len(found) != 1 || !strings.Contains(found[0].Memory, ", allocated at "+want+" in ") {
			t.Errorf("pool %v: found %v, want memory allocated at %s", pool, found, want)
		}
	}
}
