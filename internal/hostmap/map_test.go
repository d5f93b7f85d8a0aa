package hostmap

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// arena is the memory of all tests. The address of arena[i] is i.
var arena [1 << 12]byte

// buffer is what an owner belongs to.
type buffer struct {
	name   string
	closed atomic.Bool
}

func (b *buffer) String() string { return b.name }
func (b *buffer) Closed() bool   { return b.closed.Load() }

// ownerOf is an owner of a range of the arena.
func ownerOf(start, end uint64) *Owner {
	return &Owner{Host: cu.HostPtr(&arena[start]), Start: start, End: end, Of: &buffer{name: fmt.Sprintf("buffer %d-%d", start, end)}, Kind: "registered"}
}

// claim is a claim that is admitted, and never waits.
func claim(o *Owner) Claim {
	return Claim{Owner: o, Admit: func(*Entry) error { return nil }, MayWait: func() error { return errors.New("must not wait") }}
}

// ranges is the addresses of entries, as "0-10 10-20".
func ranges(entries []*Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%d-%d", e.Start, e.End))
	}
	return strings.Join(all, " ")
}

// mustClaim claims, settles what is fresh, and checks what was returned.
func mustClaim(t *testing.T, m *Map, c Claim, wantAll, wantFresh string) (all []*Entry) {
	t.Helper()
	all, fresh, err := m.Claim(c)
	if err != nil || ranges(all) != wantAll || ranges(fresh) != wantFresh {
		t.Fatalf("claim of %v: all %s, fresh %s, %v; want %s, %s", c.Owner.Of, ranges(all), ranges(fresh), err, wantAll, wantFresh)
	}
	for _, e := range fresh {
		if e.Host != cu.HostPtr(&arena[e.Start]) {
			t.Errorf("entry %d-%d has another host address", e.Start, e.End)
		}
		m.Finish(e, false)
	}
	return all
}

// release releases entries, and checks which of them the caller must unregister.
func release(t *testing.T, m *Map, o *Owner, entries []*Entry, want string) {
	t.Helper()
	var last []*Entry
	for _, e := range entries {
		if releaseEntry(m, e, o) {
			last = append(last, e)
			m.Finish(e, true)
		}
	}
	if ranges(last) != want {
		t.Errorf("release of %v: must unregister %q, want %q", o.Of, ranges(last), want)
	}
}

// releaseEntry releases an entry that no copy holds.
func releaseEntry(m *Map, e *Entry, o *Owner) (last bool) {
	last, err := m.Release(e, o, func() error { return errors.New("must not wait") })
	if err != nil {
		panic(err)
	}
	return last
}

// TestClaims: claims that overlap get fresh entries for addresses without owners, and
// share the others, until the last owner releases them.
func TestClaims(t *testing.T) {
	m := new(Map)
	a, b, c, d := ownerOf(100, 200), ownerOf(150, 300), ownerOf(50, 400), ownerOf(500, 600)
	ofA := mustClaim(t, m, claim(a), "100-200", "100-200")
	if a.Shared.Load() {
		t.Error("an owner that is alone shares bytes")
	}
	ofB := mustClaim(t, m, claim(b), "100-200 200-300", "200-300")
	ofC := mustClaim(t, m, claim(c), "50-100 100-200 200-300 300-400", "50-100 300-400")
	ofD := mustClaim(t, m, claim(d), "500-600", "500-600")
	for _, o := range []*Owner{a, b, c, d} {
		if o.Shared.Load() != (o != d) {
			t.Errorf("%v shares bytes: %v", o.Of, o.Shared.Load())
		}
	}
	release(t, m, b, ofB, "")
	release(t, m, c, ofC, "50-100 200-300 300-400")
	release(t, m, a, ofA, "100-200")
	release(t, m, d, ofD, "500-600")
	if len(m.entries) != 0 {
		t.Errorf("left: %s", ranges(m.entries))
	}
}

// TestClaimUnit: fresh entries end at multiples of a unit.
func TestClaimUnit(t *testing.T) {
	m := new(Map)
	a, b := ownerOf(130, 400), ownerOf(100, 420)
	c := claim(a)
	c.Unit, c.Flags, c.By = 100, cu.MemHostRegisterPortable, "a GPU"
	ofA := mustClaim(t, m, c, "130-200 200-300 300-400", "130-200 200-300 300-400")
	for _, e := range ofA {
		if !e.Registered || e.Flags != c.Flags || e.By != c.By || e.Kind != "registered" {
			t.Errorf("entry %+v", e)
		}
	}
	ofB := mustClaim(t, m, claim(b), "100-130 130-200 200-300 300-400 400-420", "100-130 400-420")
	release(t, m, a, ofA, "")
	release(t, m, b, ofB, "100-130 130-200 200-300 300-400 400-420")
}

// TestAdmit: a claim that is not admitted to one entry changes nothing.
func TestAdmit(t *testing.T) {
	m := new(Map)
	a, b := ownerOf(100, 200), ownerOf(300, 400)
	ofA, ofB := mustClaim(t, m, claim(a), "100-200", "100-200"), mustClaim(t, m, claim(b), "300-400", "300-400")
	refused := errors.New("refused")
	c := claim(ownerOf(50, 500))
	c.Admit = func(e *Entry) error {
		if e.Start == 300 && e.String() == "buffer 300-400" {
			return refused
		}
		return nil
	}
	if _, _, err := m.Claim(c); err != refused || c.Owner.Shared.Load() || a.Shared.Load() {
		t.Errorf("got %v, want %v; shared %v, %v", err, refused, c.Owner.Shared.Load(), a.Shared.Load())
	}
	if got := ranges(m.entries); got != "100-200 300-400" {
		t.Errorf("entries %s", got)
	}
	release(t, m, a, ofA, "100-200")
	release(t, m, b, ofB, "300-400")
}

// TestClaimWaits: a claim waits for a change of any entry in its range, asks before each
// wait whether it may, and then checks the whole range again.
func TestClaimWaits(t *testing.T) {
	for _, gone := range []bool{false, true} {
		m := new(Map)
		a, b, c := ownerOf(100, 200), ownerOf(300, 400), ownerOf(150, 350)
		_, fresh, _ := m.Claim(claim(a))
		ofB := mustClaim(t, m, claim(b), "300-400", "300-400")
		if !releaseEntry(m, ofB[0], b) {
			t.Fatal("not the last owner")
		}
		waits := make(chan struct{})
		mayWait := claim(c)
		mayWait.MayWait = func() error { waits <- struct{}{}; return nil }
		got := make(chan string)
		go func() {
			all, fresh, err := m.Claim(mayWait)
			got <- fmt.Sprintf("%s, %s, %v", ranges(all), ranges(fresh), err)
		}()
		<-waits // for a
		mustClaim(t, m, claim(ownerOf(500, 600)), "500-600", "500-600")
		m.Finish(fresh[0], gone)
		<-waits // for b
		select {
		case text := <-got:
			t.Errorf("the claim did not wait: %s", text)
		default:
		}
		m.Finish(ofB[0], true)
		want := "100-200 200-350, 200-350, <nil>"
		if gone {
			want = "150-350, 150-350, <nil>"
		}
		if text := <-got; text != want {
			t.Errorf("a's entry gone: %v: got %s, want %s", gone, text, want)
		}
	}
}

// TestMayNotWait: a claim that may not wait fails, and changes nothing.
func TestMayNotWait(t *testing.T) {
	m := new(Map)
	a, b := ownerOf(100, 200), ownerOf(150, 250)
	_, fresh, _ := m.Claim(claim(a))
	refused := errors.New("in a host function")
	c := claim(b)
	c.MayWait = func() error { return refused }
	if _, _, err := m.Claim(c); err != refused || b.Shared.Load() || ranges(m.entries) != "100-200" {
		t.Errorf("got %v, want %v; entries %s", err, refused, ranges(m.entries))
	}
	m.Finish(fresh[0], false)
	mustClaim(t, m, c, "100-200 200-250", "200-250")
}

// TestReleaseAgain: after the driver has refused to unregister an entry, its owner has
// it, and can release it again.
func TestReleaseAgain(t *testing.T) {
	m := new(Map)
	a := ownerOf(100, 200)
	e := mustClaim(t, m, claim(a), "100-200", "100-200")[0]
	if !releaseEntry(m, e, a) {
		t.Fatal("not the last owner")
	}
	m.Finish(e, false)
	if run := m.First(100, 200); run.Owner != a {
		t.Errorf("the owner is %v", run.Owner)
	}
	release(t, m, a, []*Entry{e}, "100-200")
}

// TestAdd: memory that the driver made is known until Remove.
func TestAdd(t *testing.T) {
	m := new(Map)
	a, b := ownerOf(100, 200), ownerOf(200, 300)
	m.Add(b)
	m.Add(a)
	registered := ownerOf(300, 400)
	mustClaim(t, m, claim(registered), "300-400", "300-400")
	c := claim(ownerOf(150, 250))
	c.Admit = func(e *Entry) error {
		if e.Registered {
			t.Errorf("%v is registered", e)
		}
		return errors.New(e.String())
	}
	if _, _, err := m.Claim(c); err == nil || err.Error() != "buffer 100-200" {
		t.Errorf("the claim met %v", err)
	}
	if run := m.First(120, 400); run != (Run{End: 200, Known: true, Owner: a}) {
		t.Errorf("%+v", run)
	}
	m.Remove(a)
	m.Remove(a)
	m.Remove(registered) // was not added
	if got := ranges(m.entries); got != "200-300 300-400" {
		t.Errorf("entries %s", got)
	}
}

// TestLost: a buffer that the program loses without Close stays known, because the
// driver has it, and First reports that it is lost.
func TestLost(t *testing.T) {
	m := new(Map)
	keep := ownerOf(150, 200)
	func() {
		lost := ownerOf(100, 170)
		mustClaim(t, m, claim(lost), "100-170", "100-170")
		mustClaim(t, m, claim(keep), "100-170 170-200", "170-200")
		if run := m.First(110, 300); run.Owner != lost || run.End != 170 || run.Lost {
			t.Errorf("before: %+v", run)
		}
	}()
	kept := func() (kept bool) {
		m.parts.visit(100, 110, func(p *part) { kept = kept || p.owner.Value() != nil })
		return kept
	}
	for i := 0; kept(); i++ {
		if runtime.GC(); i > 100 {
			t.Fatal("the Map keeps the owner alive")
		}
	}
	if run := m.First(110, 300); run != (Run{End: 150, Known: true, Lost: true}) {
		t.Errorf("the lost part: %+v", run)
	}
	if run := m.First(160, 300); run != (Run{End: 200, Known: true, Owner: keep, Lost: true}) {
		t.Errorf("the part that is kept: %+v", run)
	}
	if got := m.Sharing(keep, 0, 300); len(got) != 0 {
		t.Errorf("shares bytes with %v", got)
	}
	if got := m.entries[0].String(); got != "buffer 150-200" {
		t.Errorf("the entry is %s", got)
	}
	release(t, m, keep, slices.Clone(m.entries), "170-200")
	if got := m.entries[0].String(); got != "a registered buffer (70 bytes) that was lost without Close" {
		t.Errorf("the entry is %s", got)
	}
	c := ownerOf(120, 130)
	of := mustClaim(t, m, claim(c), "100-170", "")
	release(t, m, c, of, "")
	if got := ranges(m.entries); got != "100-170" {
		t.Errorf("entries %s, want what was lost", got)
	}
}

// TestPinned: Go memory is pinned from the claim until its entry is gone. If it stayed
// pinned, the garbage collector would end the program here.
func TestPinned(t *testing.T) {
	freed := make(chan struct{})
	func() {
		memory := make([]byte, 100)
		runtime.AddCleanup(&memory[0], func(int) { close(freed) }, 0)
		m, o := new(Map), ownerOf(100, 200)
		o.Host = cu.HostPtr(&memory[0])
		_, fresh, err := m.Claim(claim(o))
		if err != nil || fresh[0].pinner == (runtime.Pinner{}) {
			t.Fatalf("not pinned; %v", err)
		}
		m.Finish(fresh[0], false)
		release(t, m, o, fresh, "100-200")
	}()
	for i := 0; ; i++ {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-time.After(time.Millisecond):
		}
		if i > 1000 {
			t.Fatal("the memory is not freed")
		}
	}
}

// TestClosedOwner: memory whose buffer is being closed is known, and no open buffer has
// it, unless another one does.
func TestClosedOwner(t *testing.T) {
	m := new(Map)
	a, b := ownerOf(100, 200), ownerOf(150, 160)
	mustClaim(t, m, claim(a), "100-200", "100-200")
	mustClaim(t, m, claim(b), "100-200", "")
	if run := m.First(155, 300); run.Owner != a || run.End != 200 {
		t.Errorf("not the owner that goes on longest: %+v", run)
	}
	a.Of.(*buffer).closed.Store(true)
	for start, want := range map[uint64]Run{100: {End: 150, Known: true}, 155: {End: 160, Known: true, Owner: b}, 160: {End: 200, Known: true}} {
		if run := m.First(start, 300); run != want {
			t.Errorf("at %d: %+v, want %+v", start, run, want)
		}
	}
}

// TestForeign: memory of another library is known until its last owner releases it. Device memory has
// no host address. Remove of memory that the driver made at the same address, because the library has
// freed it unseen, leaves it.
func TestForeign(t *testing.T) {
	m := new(Map)
	foreign := func(start, end uint64) Claim {
		c := claim(&Owner{Start: start, End: end, Of: &buffer{name: "device memory"}, Kind: "wrapped device"})
		c.Foreign = true
		return c
	}
	settle := func(c Claim) []*Entry {
		t.Helper()
		all, fresh, err := m.Claim(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range fresh {
			if e.Registered || !e.Foreign || e.Host != nil {
				t.Errorf("entry %+v", e)
			}
			m.Finish(e, false)
		}
		return all
	}
	one, two := foreign(0, 50), foreign(20, 80)
	first, second := settle(one), settle(two)
	if got := ranges(first) + ", " + ranges(second); got != "0-50, 0-50 50-80" {
		t.Errorf("entries %s", got)
	}
	if !one.Owner.Shared.Load() || !two.Owner.Shared.Load() || len(m.Sharing(one.Owner, 30, 40)) != 1 || len(m.Sharing(one.Owner, 0, 20)) != 0 {
		t.Error("the owners do not share bytes 20 to 50 alone")
	}
	made := ownerOf(0, 50)
	m.Add(made)
	m.Remove(made)
	release(t, m, one.Owner, first, "")
	release(t, m, two.Owner, second, "0-50 50-80")
	if len(m.entries) != 0 {
		t.Errorf("left: %s", ranges(m.entries))
	}
}
