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
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestLaunchesWithoutOrder runs wrong programs and their corrected twins. The wrong ones are
// reported under each schedule, also if it runs one launch after the other. A sample has one
// schedule for each program, except in race builds.
func TestLaunchesWithoutOrder(t *testing.T) {
	for _, c := range betweenCases {
		t.Run(c.name, func(t *testing.T) {
			schedules := []Schedule{Eager, Lazy, Random}
			if !raceBuild {
				schedules = sample.Of(t, schedules, 1)
			}
			for _, schedule := range schedules {
				if !raceBuild { // the race detector reports the wrong programs, too, which fails the test
					found := launchesOf(t, schedule, c.wrong)
					if !slices.ContainsFunc(found, func(text string) bool { return strings.Contains(text, c.want) }) {
						t.Errorf("the wrong program under %v: got %q, want %q", schedule, found, c.want)
					}
				}
				if found := launchesOf(t, schedule, c.right); len(found) > 0 {
					t.Errorf("the correct program is reported under %v: %q", schedule, found)
				}
			}
		})
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

// TestPixelsOfTwoLaunches: the three stores of a pixel are three findings, each with its line and the
// bytes of all pixels.
func TestPixelsOfTwoLaunches(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports this wrong program, too")
	}
	x := newBetweenRig(t, Eager)
	x.launch("pixels", x.a, x.p)
	x.launch("pixels", x.b, x.p)
	x.ok(x.CtxSynchronize(x.ctx))
	lines := map[int]bool{}
	for _, f := range x.Findings() {
		if f.First.Line != f.Second.Line || f.Bytes != 32 {
			t.Errorf("lines %d and %d, %d bytes, want the same line twice and 32 bytes", f.First.Line, f.Second.Line, f.Bytes)
		}
		lines[f.First.Line] = true
	}
	if len(lines) != 3 {
		t.Errorf("findings of the lines %v, want three", lines)
	}
}

// TestKeptLaunches: what launches have touched is kept as long as others may conflict with
// it, not longer.
func TestKeptLaunches(t *testing.T) {
	x := newBetweenRig(t, Eager)
	few := func() {
		t.Helper()
		if s := x.launches.Stats(); s.Kept > 256 || s.Weight > 8192 || s.Chains > 4 {
			t.Errorf("%+v is kept, want at most 256 operations with a weight of 8192 in 4 chains", s)
		}
	}
	rounds := sample.Count(1000, 4000)
	for i := range cu.DevicePtr(rounds) { // other memory each time
		x.launch("put", x.a, x.p+i%8192/4*4)
		x.launch("put", x.b, x.q+i%8192/4*4)
		x.one("release", 1, x.a, x.r+i%1024*4, x.r+4096+i%1024*4)
		if i%10 == 9 {
			x.sync(x.a)
			x.sync(x.b)
		}
	}
	x.ok(x.CtxSynchronize(x.ctx))
	few()
	for range rounds { // the same memory, and no wait
		x.launch("put", x.a, x.p)
		x.launch("put", x.b, x.q)
	}
	x.ok(x.CtxSynchronize(x.ctx))
	few()
	if found, list := x.Findings(), x.GaveUp(); len(found) > 0 || len(list) > 0 {
		t.Errorf("reported: %v, given up: %v", found, list)
	}
}

// TestFreedMemoryIsForgotten: memory that is freed does not conflict with what gets its address.
func TestFreedMemoryIsForgotten(t *testing.T) {
	x := newBetweenRig(t, Eager)
	p := x.alloc(4 << 20) // large, so that it shares no page
	x.ok(x.MemsetD8(x.ctx, p, 1, 4<<20))
	host, _ := x.pinned(4 << 20)
	x.ok(x.MemcpyHtoD(x.ctx, p, host, 4<<20))
	x.ok(x.CtxSynchronize(x.ctx))
	for what, c := range map[string]struct {
		addr uint64
		free func() error
	}{
		"device": {uint64(p), func() error { return x.MemFree(x.ctx, p) }},
		"host":   {addressOf(host), func() error { return x.MemFreeHost(x.ctx, host) }},
	} {
		before, pages := x.launches.Stats().Pages, int((c.addr+(4<<20)-1)/writtenSize-c.addr/writtenSize+1)
		x.ok(c.free())
		if got := before - x.launches.Stats().Pages; got != pages {
			t.Errorf("a free of %s memory forgets %d pages, want %d", what, got, pages)
		}
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
