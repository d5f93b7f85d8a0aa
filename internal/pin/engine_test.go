package pin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// fakeDriver registers, and fails when told to.
type fakeDriver struct {
	mu         sync.Mutex
	registered map[address]uintptr
	order      []uintptr // bytes of the registrations so far
	fail       func(n int, p address, bytes uintptr) error
	failUndo   error
}

func newDriver() *fakeDriver { return &fakeDriver{registered: map[address]uintptr{}} }

func (d *fakeDriver) MemHostRegister(_ cu.Context, p cu.HostPtr, bytes uintptr, _ cu.MemHostRegisterFlags) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		if err := d.fail(len(d.order), p, bytes); err != nil {
			return err
		}
	}
	d.order = append(d.order, bytes)
	d.registered[p] = bytes
	return nil
}

func (d *fakeDriver) MemHostUnregister(_ cu.Context, p cu.HostPtr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failUndo != nil {
		return d.failUndo
	}
	if _, ok := d.registered[p]; !ok {
		return cu.ErrorHostMemoryNotRegistered
	}
	delete(d.registered, p)
	return nil
}

// fakeSystem is the Go heap, with a machine that a test describes.
type fakeSystem struct {
	mu      sync.Mutex
	m       *Machine
	taken   int // reserves not given back
	hugeGot bool
	advised []bool
	moved   int
	placed  []int
	refused error // of prefer
	full    error // of take
	slow    time.Duration
}

func (s *fakeSystem) machine() *Machine { return s.m }

func (s *fakeSystem) take(bytes, align uintptr) (*reserve, error) {
	if s.full != nil {
		return nil, s.full
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	b := make([]byte, bytes+align)
	return &reserve{startOf(b, align), func() error { s.mu.Lock(); defer s.mu.Unlock(); s.taken--; b[0] = 0; return nil }}, nil
}

func (s *fakeSystem) advise(_ address, _ uintptr, huge bool) { s.advised = append(s.advised, huge) }

func (s *fakeSystem) prefer(_ address, _ uintptr, n Node) error {
	s.placed = append(s.placed, n.ID)
	return s.refused
}

func (s *fakeSystem) there(address) bool {
	time.Sleep(s.slow)
	return s.hugeGot
}

func (s *fakeSystem) moveTo([]int) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved++
	return func() { s.mu.Lock(); defer s.mu.Unlock(); s.moved-- }
}

// newFakes is an engine on a machine with room and huge pages.
func newFakes() (*Engine, *fakeDriver, *fakeSystem) {
	d, s := newDriver(), &fakeSystem{m: Blank(), hugeGot: true}
	s.m.Huge = true
	begin := time.Now()
	return &Engine{driver: d, ctx: 1, sys: s, machine: s.machine, now: func() time.Duration { return time.Since(begin) }, real: true}, d, s
}

// empty checks that nothing is left.
func empty(t *testing.T, d *fakeDriver, s *fakeSystem) {
	t.Helper()
	if len(d.registered) != 0 || s.taken != 0 || s.moved != 0 {
		t.Errorf("left: %d registrations, %d reserves, %d moved threads", len(d.registered), s.taken, s.moved)
	}
}

const piece = 4 << 20 // in tests

func TestLockInPieces(t *testing.T) {
	e, d, s := newFakes()
	var told [][2]uintptr
	r := Request{Bytes: 3*piece + 100, Node: AnyNode, Progress: func(done, total uintptr) { told = append(told, [2]uintptr{done, total}) }}
	m, err := e.lock(context.Background(), s.m, r, true, piece)
	if err != nil {
		t.Fatal(err)
	}
	if want := []uintptr{piece, piece, piece, 100}; !slices.Equal(d.order, want) {
		t.Errorf("registered %v, want %v", d.order, want)
	}
	if want := []uintptr{piece, 2 * piece, 3 * piece}; !slices.Equal(m.Cuts(), want) {
		t.Errorf("cuts %v, want %v", m.Cuts(), want)
	}
	if len(told) != 4 || told[1] != [2]uintptr{2 * piece, r.Bytes} || told[3] != [2]uintptr{r.Bytes, r.Bytes} {
		t.Errorf("progress %v", told)
	}
	if number(m.Start())%uintptr(s.m.HugeBytes) != 0 {
		t.Errorf("it starts at %v, no multiple of a huge page", m.Start())
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	empty(t, d, s)
}

// TestLockFails: whichever piece the driver refuses, nothing is left.
func TestLockFails(t *testing.T) {
	for k := range 4 {
		e, d, s := newFakes()
		d.fail = func(n int, _ address, _ uintptr) error {
			if n == k {
				return cu.ErrorOutOfMemory
			}
			return nil
		}
		_, err := e.lock(context.Background(), s.m, Request{Bytes: 4 * piece, Node: AnyNode}, true, piece)
		if !errors.Is(err, cu.ErrorOutOfMemory) {
			t.Errorf("piece %d: got %v", k, err)
		}
		empty(t, d, s)
	}
}

// TestLockStops: an end of the context between pieces, or while memory is touched,
// leaves nothing.
func TestLockStops(t *testing.T) {
	for k := range 3 {
		e, d, s := newFakes()
		ctx, stop := context.WithCancel(context.Background())
		r := Request{Bytes: 4 * piece, Node: AnyNode, Progress: func(done, _ uintptr) {
			if done == uintptr(k+1)*piece {
				stop()
			}
		}}
		_, err := e.lock(ctx, s.m, r, true, piece)
		if !errors.Is(err, context.Canceled) || len(d.order) != k+1 {
			t.Errorf("after %d pieces: got %v, %d registered", k+1, err, len(d.order))
		}
		empty(t, d, s)
	}
	e, d, s := newFakes()
	s.slow = 20 * time.Millisecond
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer stop()
	if _, err := e.lock(ctx, s.m, Request{Bytes: 100 << 20, Node: AnyNode}, true, MaxPiece); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	empty(t, d, s)
}

// TestCloseInHostFunction: where the driver must not be called, a later Close goes
// on; what the driver keeps stays mapped.
func TestCloseInHostFunction(t *testing.T) {
	e, d, s := newFakes()
	m, err := e.lock(context.Background(), s.m, Request{Bytes: 2 * piece, Node: AnyNode}, true, piece)
	if err != nil {
		t.Fatal(err)
	}
	d.failUndo = cu.ErrorNotPermitted
	if err := m.Close(); !errors.Is(err, cu.ErrorNotPermitted) || len(d.registered) != 2 {
		t.Errorf("got %v, %d registered", err, len(d.registered))
	}
	d.failUndo = nil
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	empty(t, d, s)
	m, err = e.lock(context.Background(), s.m, Request{Bytes: 2 * piece, Node: AnyNode}, true, piece)
	if err != nil {
		t.Fatal(err)
	}
	d.failUndo = cu.ErrorIllegalAddress
	if err := m.Close(); !errors.Is(err, cu.ErrorIllegalAddress) || s.taken != 1 {
		t.Errorf("got %v, %d reserves kept, want 1", err, s.taken)
	}
}

// TestTouch: with huge pages one byte of each, else one of every small page: seen
// in memory that is not zero before.
func TestTouch(t *testing.T) {
	for _, c := range []struct{ huge, got bool }{{true, true}, {true, false}, {false, false}} {
		e, _, s := newFakes()
		s.hugeGot = c.got
		m, err := e.reserve(s.m, Request{Bytes: 5<<20 + 5000, Node: AnyNode}, c.huge, MaxPiece)
		if err != nil {
			t.Fatal(err)
		}
		b := bytesOf(m)
		for i := range b {
			b[i] = 1
		}
		m.touch(context.Background(), s.m, Request{}, c.huge).wait()
		for off := 0; off < len(b); off += 4096 {
			whole := off/(2<<20) < 2 // in a whole huge page
			want := byte(0)
			if c.got && whole && off%(2<<20) != 0 {
				want = 1
			}
			if b[off] != want {
				t.Fatalf("%+v: byte %#x is %d, want %d", c, off, b[off], want)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPlacement(t *testing.T) {
	e, d, s := newFakes()
	s.m.Nodes = []Node{{0, []int{0}}, {1, []int{1}}}
	for _, c := range []struct {
		r    Request
		want []int
	}{
		{Request{Bytes: piece, Node: AnyNode}, nil},
		{Request{Bytes: piece, Node: 1}, []int{1}},
		{Request{Bytes: piece, Node: 9}, nil}, // of a device, not there
	} {
		s.placed = nil
		m, err := e.Lock(context.Background(), c.r)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.placed, c.want) {
			t.Errorf("node %d: placed on %v, want %v", c.r.Node, s.placed, c.want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	s.refused = errors.New("not allowed")
	if m, err := e.Lock(context.Background(), Request{Bytes: piece, Node: 1}); err != nil {
		t.Errorf("a preference that is not met: %v", err)
	} else if err := m.Close(); err != nil {
		t.Error(err)
	}
	wantRefused(t, e, Request{Bytes: piece, Node: 1, Strict: true}, cu.ErrorInvalidValue, "not allowed")
	empty(t, d, s)
}

// wantRefused checks that a request is refused with a reason and nothing is tried.
func wantRefused(t *testing.T, e *Engine, r Request, result cu.Result, parts ...string) {
	t.Helper()
	before := len(e.driver.(*fakeDriver).order)
	_, err := e.Lock(context.Background(), r)
	told, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, result) || told.Bytes != r.Bytes || told.Node != r.Node || told.Do == "" {
		t.Errorf("%d bytes on node %d: got %v, want %v", r.Bytes, r.Node, err, result)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want %q in it", err, part)
		}
	}
	if n := len(e.driver.(*fakeDriver).order); n != before {
		t.Errorf("%v, but %d registrations were made", err, n-before)
	}
}

func TestRefused(t *testing.T) {
	e, d, s := newFakes()
	s.m.Available = 8 << 30
	s.m.Group = Group{"/box", 4 << 30, 1 << 30}
	s.m.Nodes = []Node{{0, []int{0, 1}}, {2, nil}}
	wantRefused(t, e, Request{Bytes: 2 << 30, Node: AnyNode}, cu.ErrorOutOfMemory, "/box allows 4.0 GiB", "1.0 GiB are left")
	wantRefused(t, e, Request{Bytes: piece, Node: 1, Strict: true}, cu.ErrorInvalidValue, "no NUMA node 1", "0, 2")
	s.m.Group.Left = Unknown
	wantRefused(t, e, Request{Bytes: 8<<30 + 1, Node: AnyNode}, cu.ErrorOutOfMemory, "8.0 GiB of host memory are available")
	s.full = errors.New("no addresses")
	wantRefused(t, e, Request{Bytes: piece, Node: AnyNode}, cu.ErrorOutOfMemory, "no addresses")
	empty(t, d, s)
}

// TestPredict: the first prediction tries both sizes of pages and takes the better.
// It says what a request would be refused for.
func TestPredict(t *testing.T) {
	for _, better := range []bool{true, false} {
		e, d, s := newFakes()
		e.real = false // so that the second trial is small
		clock := time.Duration(0)
		e.now = func() time.Duration { return clock }
		d.fail = func(_ int, _ address, bytes uintptr) error { // 2 ms and 1 ms for each MiB, or 4
			each := 4 * time.Millisecond
			if s.advised[len(s.advised)-1] == better {
				each = time.Millisecond
			}
			clock += 2*time.Millisecond + each*time.Duration(bytes>>20)
			return nil
		}
		p, err := e.Predict(Request{Bytes: 100 << 20, Node: AnyNode})
		if want := 102 * time.Millisecond; err != nil || p.Error != nil || p.Huge != better || p.Time.Round(time.Microsecond) != want || len(d.order) != 3 {
			t.Errorf("huge pages better %v: %+v, %v, %d tries, want %v and 3", better, p, err, len(d.order), want)
		}
		m, err := e.Lock(context.Background(), Request{Bytes: piece, Node: AnyNode})
		if err != nil || s.advised[len(s.advised)-1] != better || len(d.order) != 4 {
			t.Errorf("then: %v, pages %v, %d tries", err, s.advised, len(d.order))
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		empty(t, d, s)
		s.m.Available = 1 << 20
		if p, err := e.Predict(Request{Bytes: 2 << 20, Node: AnyNode}); err != nil || p.Error == nil {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// TestLearn: what large requests took is what the next prediction says.
func TestLearn(t *testing.T) {
	e, _, _ := newFakes()
	e.cost = cost{0.5, 1}
	e.learn(moreBytes-1, time.Hour) // too small to tell
	e.learn(moreBytes, 1500*time.Millisecond)
	if got := e.cost.of(2 * moreBytes); got.Round(time.Microsecond) != 2500*time.Millisecond {
		t.Errorf("got %v, want 2.5s", got)
	}
}

// TestTrialFails: a prediction that cannot be made is an error, and a request on
// such a machine says its own.
func TestTrialFails(t *testing.T) {
	e, d, s := newFakes()
	d.fail = func(int, address, uintptr) error { return cu.ErrorNotSupported }
	if _, err := e.Predict(Request{Bytes: piece, Node: AnyNode}); !errors.Is(err, cu.ErrorNotSupported) {
		t.Errorf("got %v", err)
	}
	empty(t, d, s)
}

func TestSystem(t *testing.T) {
	s := host()
	if s == nil {
		t.Skip("memory is the driver's here")
	}
	d := newDriver()
	e := &Engine{driver: d, sys: s, machine: s.machine, now: func() time.Duration { return 0 }, real: true}
	m, err := e.Lock(context.Background(), Request{Bytes: 6<<20 + 1, Node: AnyNode})
	if err != nil {
		t.Fatal(err)
	}
	b := bytesOf(m)
	for off := 0; off < len(b); off += 4096 {
		if !s.there(at(m.start, uintptr(off))) {
			t.Fatalf("nothing is behind byte %#x", off)
		}
	}
	b[len(b)-1] = 1
	undo := s.moveTo([]int{0})
	undo()
	_ = s.prefer(m.start, m.bytes, Node{ID: 0}) // containers may forbid it
	if err := m.Close(); err != nil || len(d.registered) != 0 {
		t.Error(err, d.registered)
	}
}
