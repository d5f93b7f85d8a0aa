package pin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/room"
)

// fakeDriver records registrations, and fails on request.
type fakeDriver struct {
	mu             sync.Mutex
	registered     map[address]uintptr
	sizes          []uintptr // bytes of the registrations so far
	fail           func(n int, p address, bytes uintptr) error
	failUnregister error
}

func newDriver() *fakeDriver { return &fakeDriver{registered: map[address]uintptr{}} }

func (d *fakeDriver) MemHostRegister(_ cu.Context, p cu.HostPtr, bytes uintptr, _ cu.MemHostRegisterFlags) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		if err := d.fail(len(d.sizes), p, bytes); err != nil {
			return err
		}
	}
	d.sizes = append(d.sizes, bytes)
	d.registered[p] = bytes
	return nil
}

func (d *fakeDriver) MemHostUnregister(_ cu.Context, p cu.HostPtr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failUnregister != nil {
		return d.failUnregister
	}
	if _, ok := d.registered[p]; !ok {
		return cu.ErrorHostMemoryNotRegistered
	}
	delete(d.registered, p)
	return nil
}

// fakeSystem takes memory from the Go heap, on a machine that a test describes.
type fakeSystem struct {
	givenBack             sync.WaitGroup // memory that is given back after Lock has returned, see Engine.Keep
	mu                    sync.Mutex
	m                     *Machine
	reserved              int  // reservations that are not released
	givesHuge             bool // a touch makes a whole huge page resident
	advised               []bool
	bound                 int // threads that are bound to processors
	placed                []int
	preferErr, reserveErr error
	slow                  time.Duration // of resident
}

func (s *fakeSystem) machine() *Machine { return s.m }

func (s *fakeSystem) reserve(bytes, align uintptr) (*reservation, error) {
	if s.reserveErr != nil {
		return nil, s.reserveErr
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved++
	b := make([]byte, bytes+align)
	return &reservation{startOf(b, align), func() error { s.mu.Lock(); defer s.mu.Unlock(); s.reserved--; b[0] = 0; return nil }}, nil
}

func (s *fakeSystem) advise(_ address, _ uintptr, huge bool) { s.advised = append(s.advised, huge) }

func (s *fakeSystem) prefer(_ address, _ uintptr, n Node) error {
	s.placed = append(s.placed, n.ID)
	return s.preferErr
}

func (s *fakeSystem) resident(address) bool {
	time.Sleep(s.slow)
	return s.givesHuge
}

func (s *fakeSystem) runOn([]int) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound++
	return func() { s.mu.Lock(); defer s.mu.Unlock(); s.bound-- }
}

// newFakes makes an engine on a machine with enough memory and huge pages.
func newFakes() (*Engine, *fakeDriver, *fakeSystem) {
	d, s := newDriver(), &fakeSystem{m: UnknownMachine(), givesHuge: true}
	s.m.Huge = true
	begin := time.Now()
	keep := func() (end func()) {
		s.givenBack.Add(1)
		return s.givenBack.Done
	}
	return &Engine{Keep: keep, driver: d, ctx: 1, sys: s, machine: s.machine, now: func() time.Duration { return time.Since(begin) }, touches: true, set: DefaultSettings(), trials: make(chan struct{}, 1)}, d, s
}

// wantEmpty checks that nothing is left. If a context has ended, Lock waits 10 ms for what gives
// the memory back, which takes longer on a machine with too few processors.
func wantEmpty(t *testing.T, d *fakeDriver, s *fakeSystem) {
	t.Helper()
	s.givenBack.Wait()
	if len(d.registered) != 0 || s.reserved != 0 || s.bound != 0 {
		t.Errorf("left: %d registrations, %d reservations, %d bound threads", len(d.registered), s.reserved, s.bound)
	}
}

const part = 4 << 20 // bytes of a registration

// TestLockInParts: each part is registered by itself, in order, and Progress is called
// after each.
func TestLockInParts(t *testing.T) {
	e, d, s := newFakes()
	e.set.MaxRegistration = part
	var progress [][2]uintptr
	r := Request{Bytes: 3*part + 100, Node: AnyNode, Progress: func(done, total uintptr) { progress = append(progress, [2]uintptr{done, total}) }}
	m, err := e.lock(context.Background(), s.m, r, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := []uintptr{part, part, part, 100}; !slices.Equal(d.sizes, want) {
		t.Errorf("registered %v, want %v", d.sizes, want)
	}
	if want := []uintptr{part, 2 * part, 3 * part}; !slices.Equal(m.Boundaries(), want) {
		t.Errorf("boundaries %v, want %v", m.Boundaries(), want)
	}
	if len(progress) != 4 || progress[1] != [2]uintptr{2 * part, r.Bytes} || progress[3] != [2]uintptr{r.Bytes, r.Bytes} {
		t.Errorf("progress %v", progress)
	}
	if number(m.Start())%uintptr(s.m.HugeBytes) != 0 {
		t.Errorf("it starts at %v, which is no multiple of a huge page", m.Start())
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	wantEmpty(t, d, s)
}

// TestLockFails: whichever registration the driver refuses, nothing is left.
func TestLockFails(t *testing.T) {
	for k := range 4 {
		e, d, s := newFakes()
		e.set.MaxRegistration = part
		d.fail = func(n int, _ address, _ uintptr) error {
			if n == k {
				return cu.ErrorOutOfMemory
			}
			return nil
		}
		_, err := e.lock(context.Background(), s.m, Request{Bytes: 4 * part, Node: AnyNode}, true)
		if !errors.Is(err, cu.ErrorOutOfMemory) {
			t.Errorf("registration %d: got %v", k, err)
		}
		wantEmpty(t, d, s)
	}
}

// TestLockStops: if the context ends between registrations, or while memory is touched,
// nothing is left.
func TestLockStops(t *testing.T) {
	for k := range 3 {
		e, d, s := newFakes()
		e.set.MaxRegistration = part
		ctx, stop := context.WithCancel(context.Background())
		r := Request{Bytes: 4 * part, Node: AnyNode, Progress: func(done, _ uintptr) {
			if done == uintptr(k+1)*part {
				stop()
			}
		}}
		_, err := e.lock(ctx, s.m, r, true)
		if !errors.Is(err, context.Canceled) || len(d.sizes) != k+1 {
			t.Errorf("after %d registrations: got %v, %d registered", k+1, err, len(d.sizes))
		}
		wantEmpty(t, d, s)
	}
	e, d, s := newFakes()
	s.slow = 20 * time.Millisecond
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer stop()
	if _, err := e.lock(ctx, s.m, Request{Bytes: 100 << 20, Node: AnyNode}, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	wantEmpty(t, d, s)
}

// TestCloseInHostFunction: where the driver must not be called, a later Close goes on.
// Memory that the driver does not unregister stays reserved.
func TestCloseInHostFunction(t *testing.T) {
	e, d, s := newFakes()
	e.set.MaxRegistration = part
	m, err := e.lock(context.Background(), s.m, Request{Bytes: 2 * part, Node: AnyNode}, true)
	if err != nil {
		t.Fatal(err)
	}
	d.failUnregister = cu.ErrorNotPermitted
	if err := m.Close(); !errors.Is(err, cu.ErrorNotPermitted) || len(d.registered) != 2 {
		t.Errorf("got %v, %d registered", err, len(d.registered))
	}
	d.failUnregister = nil
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	wantEmpty(t, d, s)
	m, err = e.lock(context.Background(), s.m, Request{Bytes: 2 * part, Node: AnyNode}, true)
	if err != nil {
		t.Fatal(err)
	}
	d.failUnregister = cu.ErrorIllegalAddress
	if err := m.Close(); !errors.Is(err, cu.ErrorIllegalAddress) || s.reserved != 1 {
		t.Errorf("got %v, %d reservations, want 1", err, s.reserved)
	}
}

// TestLeft: memory that the driver does not unregister, after a Lock that failed, is kept for
// another try. It fails for an error of the driver, and for a panic of Progress.
func TestLeft(t *testing.T) {
	planted := errors.New("planted")
	for _, panics := range []bool{false, true} {
		e, d, s := newFakes()
		e.set.MaxRegistration = part
		var left []func() error
		e.Left = func(task func() error) { left = append(left, task) }
		d.fail = func(n int, _ address, _ uintptr) error {
			if n == 2 && !panics {
				return cu.ErrorUnknown
			}
			return nil
		}
		d.failUnregister = cu.ErrorInvalidHandle
		r := Request{Bytes: 4 * part, Node: AnyNode, Progress: func(done, _ uintptr) {
			if done == 2*part && panics {
				panic(planted)
			}
		}}
		err := func() (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = v.(error)
				}
			}()
			_, err = e.lock(context.Background(), s.m, r, true)
			return err
		}()
		if panics && err != planted || !panics && !errors.Is(err, cu.ErrorUnknown) || len(d.registered) != 2 || len(left) != 1 {
			t.Fatalf("panics %t: got %v, %d registered, %d tasks left; want 2 and 1", panics, err, len(d.registered), len(left))
		}
		if err := left[0](); !errors.Is(err, cu.ErrorInvalidHandle) {
			t.Errorf("panics %t: another try: got %v", panics, err)
		}
		d.failUnregister = nil
		if panics {
			clear(d.registered) // by the call that failed
		}
		if err := left[0](); err != nil {
			t.Errorf("panics %t: the last try: got %v", panics, err)
		}
		wantEmpty(t, d, s)
	}
}

// TestTouch: one byte of each huge page is touched, or of each small page if there are no
// huge ones. The test sees that in memory that was not zero before.
func TestTouch(t *testing.T) {
	for _, c := range []struct{ huge, gives bool }{{true, true}, {true, false}, {false, false}} {
		e, _, s := newFakes()
		s.givesHuge = c.gives
		m, err := e.reserve(s.m, Request{Bytes: 5<<20 + 5000, Node: AnyNode}, c.huge)
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
			if c.gives && whole && off%(2<<20) != 0 {
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

// TestPlacement: memory is placed on the node asked for, if that exists.
func TestPlacement(t *testing.T) {
	e, d, s := newFakes()
	s.m.Nodes = []Node{{0, []int{0}}, {1, []int{1}}}
	for _, c := range []struct {
		r    Request
		want []int
	}{
		{Request{Bytes: part, Node: AnyNode}, nil},
		{Request{Bytes: part, Node: 1}, []int{1}},
		{Request{Bytes: part, Node: 9}, nil}, // a node that does not exist
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
	s.preferErr = errors.New("not allowed")
	if m, err := e.Lock(context.Background(), Request{Bytes: part, Node: 1}); err != nil {
		t.Errorf("a node that is only preferred: %v", err)
	} else if err := m.Close(); err != nil {
		t.Error(err)
	}
	wantRefused(t, e, Request{Bytes: part, Node: 1, Strict: true}, cu.ErrorInvalidValue, "not allowed")
	wantEmpty(t, d, s)
}

// wantRefused checks that a request is refused with a reason, and that nothing is tried.
func wantRefused(t *testing.T, e *Engine, r Request, result cu.Result, parts ...string) {
	t.Helper()
	before := len(e.driver.(*fakeDriver).sizes)
	_, err := e.Lock(context.Background(), r)
	found, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, result) || found.Bytes != r.Bytes || found.Node != r.Node || found.Do == "" {
		t.Errorf("%d bytes on node %d: got %v, want %v", r.Bytes, r.Node, err, result)
		return
	}
	for _, text := range parts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %q, want %q in it", err, text)
		}
	}
	if n := len(e.driver.(*fakeDriver).sizes); n != before {
		t.Errorf("%v, but %d registrations were made", err, n-before)
	}
}

// TestRefused: requests that cannot succeed are refused with a reason.
func TestRefused(t *testing.T) {
	e, d, s := newFakes()
	s.m.Available = 8 << 30
	s.m.Group = room.Group{Path: "/box", Limit: 4 << 30, Left: 1 << 30}
	s.m.Nodes = []Node{{0, []int{0, 1}}, {2, nil}}
	wantRefused(t, e, Request{Bytes: 2 << 30, Node: AnyNode}, cu.ErrorOutOfMemory, "/box allows 4.0 GiB", "1.0 GiB are left")
	wantRefused(t, e, Request{Bytes: part, Node: 1, Strict: true}, cu.ErrorInvalidValue, "no NUMA node 1", "0, 2")
	s.m.Nodes = nil
	wantRefused(t, e, Request{Bytes: part, Node: 1, Strict: true}, cu.ErrorInvalidValue, "no NUMA node 1", "node 0 is all memory")
	if m, err := e.Lock(context.Background(), Request{Bytes: part, Node: 0, Strict: true}); err != nil {
		t.Errorf("node 0 of a machine that names none: %v", err)
	} else if err := m.Close(); err != nil {
		t.Error(err)
	}
	s.m.Group.Left = Unknown
	wantRefused(t, e, Request{Bytes: 8<<30 + 1, Node: AnyNode}, cu.ErrorOutOfMemory, "8.0 GiB of host memory are available")
	s.reserveErr = errors.New("no addresses")
	wantRefused(t, e, Request{Bytes: part, Node: AnyNode}, cu.ErrorOutOfMemory, "no addresses")
	wantEmpty(t, d, s)
}

// TestEmulatedNode: an emulated machine has one node, whatever this one has.
func TestEmulatedNode(t *testing.T) {
	for _, node := range []int{0, 3} {
		emulated := &Emulated{Name: "some", Left: 1 << 40, Total: 1 << 40, Node: node}
		for id := -1; id < 5; id++ {
			err := RefuseEmulated(Request{Bytes: 1, Node: id, Strict: true}, emulated)
			if refused := err != nil; refused == (id == node) {
				t.Errorf("node %d of a machine with node %d: %v", id, node, err)
			}
			if want := fmt.Sprintf("no NUMA node %d (there are: %d)", id, node); err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want %q in it", err, want)
			}
		}
	}
}

// TestPredict: the first prediction tries both sizes of pages and chooses the faster. It
// also says why a request would be refused.
func TestPredict(t *testing.T) {
	for _, better := range []bool{true, false} {
		e, d, s := newFakes()
		e.touches = false // so that the second trial is small
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
		if want := 102 * time.Millisecond; err != nil || p.Error != nil || p.Huge != better || p.Time.Round(time.Microsecond) != want || len(d.sizes) != 3 {
			t.Errorf("huge pages faster %v: %+v, %v, %d registrations, want %v and 3", better, p, err, len(d.sizes), want)
		}
		m, err := e.Lock(context.Background(), Request{Bytes: part, Node: AnyNode})
		if err != nil || s.advised[len(s.advised)-1] != better || len(d.sizes) != 4 {
			t.Errorf("the next request: %v, pages %v, %d registrations", err, s.advised, len(d.sizes))
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		wantEmpty(t, d, s)
		s.m.Available = 1 << 20
		if p, err := e.Predict(Request{Bytes: 2 << 20, Node: AnyNode}); err != nil || p.Error == nil {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// TestLearn: the next prediction is what a large request took.
func TestLearn(t *testing.T) {
	e, _, _ := newFakes()
	e.cost = cost{0.5, 1}
	large := e.set.LargeTrialBytes
	e.learn(large-1, time.Hour) // too small to count
	e.learn(large, 1500*time.Millisecond)
	if got := e.cost.of(2 * large); got.Round(time.Microsecond) != 2500*time.Millisecond {
		t.Errorf("got %v, want 2.5s", got)
	}
}

// TestTrialFails: if the trial fails, Predict returns its error.
func TestTrialFails(t *testing.T) {
	e, d, s := newFakes()
	d.fail = func(int, address, uintptr) error { return cu.ErrorNotSupported }
	if _, err := e.Predict(Request{Bytes: part, Node: AnyNode}); !errors.Is(err, cu.ErrorNotSupported) {
		t.Errorf("got %v", err)
	}
	wantEmpty(t, d, s)
}

// TestSystem: the system that runs the test gives memory, and touching makes it resident.
func TestSystem(t *testing.T) {
	s := hostSystem()
	if s == nil {
		t.Skip("only the driver has page-locked memory on this system")
	}
	d := newDriver()
	e := &Engine{driver: d, sys: s, machine: s.machine, now: func() time.Duration { return 0 }, touches: true, set: DefaultSettings()}
	m, err := e.Lock(context.Background(), Request{Bytes: 6<<20 + 1, Node: AnyNode})
	if err != nil {
		t.Fatal(err)
	}
	b := bytesOf(m)
	for off := 0; off < len(b); off += 4096 {
		if !s.resident(at(m.start, uintptr(off))) {
			t.Fatalf("the page of byte %#x is not resident", off)
		}
	}
	b[len(b)-1] = 1
	undo := s.runOn([]int{0})
	undo()
	_ = s.prefer(m.start, m.bytes, Node{ID: 0}) // containers may forbid it
	if err := m.Close(); err != nil || len(d.registered) != 0 {
		t.Error(err, d.registered)
	}
}

// TestSmallPages: Small is called for memory that is large enough for a huge page and gets small ones.
func TestSmallPages(t *testing.T) {
	for _, huge := range []bool{true, false} {
		e, _, s := newFakes()
		s.m.Huge = huge
		var got []uintptr
		e.Small = func(bytes uintptr) { got = append(got, bytes) }
		for _, bytes := range []uintptr{1 << 20, 4 << 20} {
			m, err := e.Lock(context.Background(), Request{Bytes: bytes, Node: AnyNode})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if huge && len(got) > 0 || !huge && !slices.Equal(got, []uintptr{4 << 20}) {
			t.Errorf("huge pages %t: small ones for %d bytes, want 4 MiB only without huge ones", huge, got)
		}
	}
}
