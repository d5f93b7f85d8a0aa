package softgpu

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// TestLaunchesWithoutOrder runs wrong programs and their corrected twins. The wrong ones are
// reported under each schedule, also if it runs one launch after the other.
func TestLaunchesWithoutOrder(t *testing.T) {
	for _, schedule := range []Schedule{Eager, Lazy, Random} {
		for _, c := range betweenCases {
			t.Run(c.name+"/"+schedule.String(), func(t *testing.T) {
				if !raceBuild { // the race detector reports the wrong programs, too, which fails the test
					found := launchesOf(t, schedule, c.wrong)
					if !slices.ContainsFunc(found, func(text string) bool { return strings.Contains(text, c.want) }) {
						t.Errorf("the wrong program: got %q, want %q", found, c.want)
					}
				}
				if found := launchesOf(t, schedule, c.right); len(found) > 0 {
					t.Errorf("the correct program is reported: %q", found)
				}
			})
		}
	}
}

// launchesOf runs a program and returns its reports.
func launchesOf(t *testing.T, s Schedule, program func(x *betweenRig)) (texts []string) {
	x := newBetweenRig(t, s)
	program(x)
	x.ok(x.CtxSynchronize(x.ctx))
	for _, f := range x.Findings() {
		texts = append(texts, f.String())
	}
	return texts
}

// TestFindingBetweenLaunches: a finding has all that a report says, counts the launches, and is
// in the file of "ferry check" once.
func TestFindingBetweenLaunches(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports this wrong program, too")
	}
	report := filepath.Join(t.TempDir(), "report")
	t.Setenv(checks.ReportVariable, report)
	x := newBetweenRig(t, Eager)
	for range 3 {
		x.launch("put", x.a, x.p)
		x.launch("get", x.b, x.p+4)
		x.ok(x.CtxSynchronize(x.ctx))
	}
	found := x.Findings()
	if len(found) != 1 {
		t.Fatalf("%d findings: %v", len(found), found)
	}
	f := found[0]
	sides := []FindingSide{*f.First, f.Second}
	slices.SortFunc(sides, func(a, b FindingSide) int { return a.Line - b.Line })
	put := FindingSide{Access: "write", Thread: [3]uint32{1, 0, 0}, Line: 13, Op: "st.global.u32", Kernel: "put", Stream: fmt.Sprintf("stream %#x", uintptr(x.a))}
	get := FindingSide{Access: "read", Line: 24, Op: "ld.global.u32", Kernel: "get", Stream: fmt.Sprintf("stream %#x", uintptr(x.b))}
	put.At, get.At = sides[0].At, sides[1].At // see TestSites
	if sides[0] != put || sides[1] != get {
		t.Errorf("sides %+v, want %+v and %+v", sides, put, get)
	}
	if f.Kind != "race between launches" || f.Bytes != 124 || f.Offset != 4 || f.Count != 3 {
		t.Errorf("finding %+v", f)
	}
	for _, want := range []string{
		fmt.Sprintf("write by thread (1,0,0) of block (0,0,0) of put in stream %#x: st.global.u32, PTX line 13", uintptr(x.a)),
		"124 bytes at offset 4 of a 8192-byte device allocation", "(3 times)", betweenStreams,
	} {
		if !strings.Contains(f.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &f)
		}
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var row checks.Row
	if err := json.Unmarshal(text, &row); err != nil || row.Check != checks.Races || !strings.Contains(row.Text, "race between launches of kernels") {
		t.Errorf("the file has %s (%v), want one row with the race", text, err)
	}
}

// TestKeptLaunches: what launches have touched is kept as long as others may conflict with
// it, not longer.
func TestKeptLaunches(t *testing.T) {
	x := newBetweenRig(t, Eager)
	most := func(kept, weight int) {
		t.Helper()
		if c := x.launches; len(c.kept) > kept || c.weight > weight || len(c.heads) > 4 {
			t.Errorf("%d launches with weight %d in %d chains are kept, want at most %d and %d", len(c.kept), c.weight, len(c.heads), kept, weight)
		}
	}
	for i := range cu.DevicePtr(4000) { // other memory each time
		x.launch("put", x.a, x.p+i%8192/4*4)
		x.launch("put", x.b, x.q+i%8192/4*4)
		x.one("release", 1, x.a, x.r+i%1024*4, x.r+4096+i%1024*4)
		if i%10 == 9 {
			x.sync(x.a)
			x.sync(x.b)
		}
	}
	x.ok(x.CtxSynchronize(x.ctx))
	most(2*leastLimit/footprintWeight, 2*leastLimit)
	x.checkWeight()
	for range 4000 { // the same memory, and no wait
		x.launch("put", x.a, x.p)
		x.launch("put", x.b, x.q)
	}
	x.ok(x.CtxSynchronize(x.ctx))
	most(2*leastLimit/footprintWeight, 2*leastLimit)
	x.launches.most = 1000
	x.launches.limit = 1000
	for i := range cu.DevicePtr(500) { // other memory each time, and no wait
		x.launch("put", x.a, x.p+i*16)
		x.launch("put", x.b, x.q+i*16)
	}
	x.ok(x.CtxSynchronize(x.ctx))
	most(2*leastLimit/footprintWeight, 2*leastLimit)
	if found := x.Findings(); len(found) > 0 {
		t.Errorf("reported: %v", found)
	}
	if list := x.GaveUp(); len(list) != 1 || list[0].What != gaveUpLaunches || list[0].Count == 0 {
		t.Errorf("launches were forgotten, and the driver says that it gave up %v", list)
	}
	x.launches.most, x.launches.limit = mostWeight, mostWeight
	p := x.alloc(1 << 20)
	x.ok(x.MemsetD8(x.ctx, p, 1, 1<<20))
	x.ok(x.CtxSynchronize(x.ctx))
	before, pages := len(x.launches.pages), int((uint64(p)+(1<<20)-1)/writtenSize-uint64(p)/writtenSize+1)
	x.ok(x.MemFree(x.ctx, p))
	if got := before - len(x.launches.pages); got != pages {
		t.Errorf("a free forgets %d pages, want %d", got, pages)
	}
	x.checkWeight()
}

// TestKeptForQueuedLaunches: what a launch has touched is kept for another one that was queued
// before the host waited, and that runs later.
func TestKeptForQueuedLaunches(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports this wrong program, too")
	}
	x := newBetweenRig(t, Lazy)
	x.launch("get", x.b, x.p)
	x.launch("put", x.a, x.p)
	x.sync(x.a)
	x.launches.limit = 0
	x.launch("put", x.a, x.q)
	x.sync(x.a)
	x.ok(x.CtxSynchronize(x.ctx))
	if found := x.Findings(); len(found) != 1 {
		t.Errorf("%d findings, want 1: %v", len(found), found)
	}
}

// checkWeight compares the weight of what is kept with what is there.
func (x *betweenRig) checkWeight() {
	x.t.Helper()
	c, sum := x.launches, 0
	for f := range c.kept {
		sum += footprintWeight
		for number, p := range f.Pages {
			sum += weightOf(&p)
			if !slices.Contains(c.pages[number], f) {
				x.t.Errorf("page %#x does not name a launch that has touched it", number)
			}
		}
		for _, addr := range f.Released {
			if _, ok := c.words[addr/writtenSize][addr][f]; !ok {
				x.t.Errorf("word %#x does not name a launch that has released it", addr)
			}
		}
	}
	for number, words := range c.words {
		for addr, list := range words {
			for f := range list {
				if _, kept := c.kept[f]; !kept || addr/writtenSize != number || !slices.Contains(f.Released, addr) {
					x.t.Errorf("word %#x names a launch that has not released it, or is not kept", addr)
				}
			}
		}
	}
	if sum != c.weight {
		x.t.Errorf("the weight is %d, but what is kept has %d", c.weight, sum)
	}
}

// TestOffHasNoOrder: without the check, operations have no place in an order.
func TestOffHasNoOrder(t *testing.T) {
	r := newRig(t, Options{Check: "0"})
	p := r.alloc(128)
	s := r.stream(0)
	r.ok(r.MemsetD8Async(r.ctx, p, 1, 128, s))
	if o := r.lastOp(s); r.launches != nil || o.track != nil || o.work.spans != nil {
		t.Errorf("check %v, place %v", r.launches, o.track)
	}
}

// TestGaveUpCounts: each bound of the check of launches counts what it drops.
func TestGaveUpCounts(t *testing.T) {
	given := map[string]int{}
	fresh := func() (*launchCheck, *track) {
		c := newLaunchCheck(new(space), true, func(what string, n int) { given[what] += n })
		running := &track{at: chainLink{0, 1}}
		c.running[running] = struct{}{}
		return c, running
	}
	c, _ := fresh()
	for range mostAcquired + 1 {
		c.keepAcquired(&footprint{Footprint: &kernelrace.Footprint{Acquires: true}, standing: new(standing)})
	}
	c, _ = fresh()
	for range mostEdges + 1 {
		c.addEdge(chainLink{0, 2}, past{1})
	}
	c.tidyEdges()
	c, running := fresh()
	found := make([]*waiting, mostWaiting+3)
	for i := range found {
		found[i] = &waiting{first: &standing{at: running.at}, second: &standing{at: chainLink{1, 1}}}
	}
	c.judge(found)
	for what, want := range map[string]int{gaveUpAcquired: mostAcquired / 2, gaveUpEdges: mostEdges/2 + 1, gaveUpConflicts: 3} {
		if given[what] != want {
			t.Errorf("%s: %d, want %d", what, given[what], want)
		}
	}
}

// TestGaveUpFindings: findings beyond the most that a driver keeps are counted.
func TestGaveUpFindings(t *testing.T) {
	var a findings
	a.list = make([]Finding, maxFindings)
	a.shown = map[string]bool{}
	for i := range 3 {
		a.addPair(&Finding{First: &FindingSide{Line: i}})
	}
	if list := a.limits.List(); len(list) != 1 || list[0].What != gaveUpFindings || list[0].Count != 3 {
		t.Errorf("three findings were left out, and the list is %v", list)
	}
}
