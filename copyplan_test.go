package ferry

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/softgpu"
)

// planners are the functions that may look at a kind of memory, or at the path of a copy.
var planners = map[string][]string{
	"kind": {"planKinds", "planOf"},
	"path": {"planKinds", "planCopy", "copying.move", "copying.moveRect", "copyAll.add", "checkIO", "copyPlan.mustQueue"},
}

// TestCopiesArePlannedOnce: of the code of copies planOf alone asks for the kinds of memory,
// planKinds alone decides by them, and few functions follow the path, among them mustQueue for lists.
// Other code asks the plan.
func TestCopiesArePlannedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			by := functionName(function)
			for what := range questions(function.Body, copiesMemory(name)) {
				if topic, _, _ := strings.Cut(what, ":"); !slices.Contains(planners[topic], by) {
					t.Errorf("%s: %s has %s: let the plan decide it", name, by, what)
				} else {
					seen[topic+" in "+by] = true
				}
			}
		}
	}
	for topic, all := range planners {
		for _, by := range all {
			if !seen[topic+" in "+by] {
				t.Errorf("no question about the %s in %s: the test looks for nothing", topic, by)
			}
		}
	}
}

// TestQuestions: questions finds each form of a question, so that TestCopiesArePlannedOnce can
// fail.
func TestQuestions(t *testing.T) {
	for body, want := range map[string]string{
		"if r.kind() == deviceMemory {}":               "kind",
		"switch dst.kind() {}":                         "kind",
		"_ = r.a.kind":                                 "kind",
		"if k.onHost() {}":                             "kind",
		"x := pageableMemory; _ = x":                   "kind",
		"if p.path == pathRing {}":                     "path",
		"if x.plan.path != y {}":                       "path",
		"switch p.path {}":                             "path",
		"switch z { case pathCPU: }":                   "path",
		"switch { case p.path > 1: }":                  "path",
		"q := p.path; _ = q":                           "path",
		"if p.op == r.a.size && p.long { p.hold = 1 }": "",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p; func f() {"+body+"}", 0)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for what := range questions(f.Decls[0].(*ast.FuncDecl).Body, true) {
			got, _, _ = strings.Cut(what, ":")
			break
		}
		if got != want {
			t.Errorf("%s: a question about %q, want %q", body, got, want)
		}
	}
}

// sources returns the files of the package that are no tests.
func sources(t *testing.T) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".go") && !strings.HasSuffix(n, "_test.go") {
			all = append(all, n)
		}
	}
	return all
}

// copiesMemory reports whether a file has code of copies. Other files, such as those of
// buffers, may ask for the kind of an allocation.
func copiesMemory(file string) bool {
	return strings.HasPrefix(file, "copy") || slices.Contains([]string{"pageable.go", "rect.go"}, file)
}

// functionName returns the name of a function, or type and name of a method.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	return fmt.Sprintf("%v.%s", t, f.Name.Name)
}

// questions yields what a function asks about kinds of memory and paths, with the topic
// before a colon. In code of copies it also finds kinds of allocations.
func questions(body ast.Node, copies bool) func(yield func(string) bool) {
	kinds := []string{"pageableMemory", "deviceMemory", "hostMemory", "registeredMemory", "managedMemory"}
	paths := []string{"pathNone", "pathCPU", "pathRing", "pathDriver"}
	return func(yield func(string) bool) {
		more := true
		say := func(topic, what string) {
			more = more && yield(topic+": "+what)
		}
		ast.Inspect(body, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if s, ok := x.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "kind" {
					say("kind", "a call of kind()")
				}
			case *ast.SelectorExpr:
				if x.Sel.Name == "path" {
					say("path", "a use of the path")
				} else if copies && (x.Sel.Name == "kind" || x.Sel.Name == "onHost") {
					say("kind", "a use of "+x.Sel.Name)
				}
			case *ast.Ident:
				if slices.Contains(paths, x.Name) {
					say("path", x.Name)
				} else if copies && slices.Contains(kinds, x.Name) {
					say("kind", x.Name)
				}
			}
			return more
		})
	}
}

// registering is a driver that registers memory before it queues a copy to the device.
type registering struct {
	cu.Driver
	register func() (closed chan struct{}) // nil for none
}

func (d *registering) Unwrap() cu.Driver { return d.Driver }

func (d *registering) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if d.register == nil {
		return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
	}
	closed := d.register()
	d.register = nil
	return &lateError{d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s), closed}
}

// lateError is an error that is asked what it is when the registration is closed, or cannot
// be closed yet.
type lateError struct {
	error
	closed chan struct{}
}

func (e *lateError) Unwrap() error { return e.error }

func (e *lateError) Is(error) bool {
	select {
	case <-e.closed:
	case <-time.After(20 * time.Millisecond):
	}
	return false // Unwrap tells
}

// TestCopyRegisteredMeanwhile: the first half of a pageable slice is registered while the driver is
// asked to copy it, which it refuses. Another goroutine closes the registration as soon as it
// can. The copy is repeated: it must find the registration before it can be closed.
func TestCopyRegisteredMeanwhile(t *testing.T) {
	d := &registering{Driver: try(softgpu.Open(softgpu.Options{}))(t)}
	g := try(OpenDriver(d, 0))(t)
	s := try(NewStream(g, nil))(t)
	const n = 16 << 10
	memory, device := make([]byte, n), try(Alloc[byte](g, n))(t)
	closed := make(chan struct{})
	d.register = func() chan struct{} {
		h := try(Register(g, memory[:n/2], nil))(t)
		go func() {
			defer close(closed)
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}()
		return closed
	}
	if err := Copy(s, device, Pageable(memory)); err != nil {
		t.Error(err)
	}
	if d.register != nil {
		t.Fatal("the driver was not asked for the copy")
	}
	<-closed
	for _, x := range []interface{ Close() error }{device, s, g} {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

// crowdDriver counts the goroutines that are in copies between host and device at once. It
// hides that the driver is emulated, because copies on an emulated device need no place.
type crowdDriver struct {
	cu.Driver
	calls, inside, most atomic.Int64
}

func (d *crowdDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	defer d.enter()()
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (d *crowdDriver) MemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	defer d.enter()()
	return d.Driver.MemcpyDtoHAsync(ctx, dst, src, n, s)
}

// enter counts a goroutine until it calls leave.
func (d *crowdDriver) enter() (leave func()) {
	d.calls.Add(1)
	now := d.inside.Add(1)
	for old := d.most.Load(); now > old && !d.most.CompareAndSwap(old, now); old = d.most.Load() {
	}
	for range 20 {
		runtime.Gosched()
	}
	return func() { d.inside.Add(-1) }
}

// TestDriverCopiesNeedPlaces: the copies of small pageable slices that the driver makes are
// among the active transfers of the ring. So few goroutines are in the driver at once.
func TestDriverCopiesNeedPlaces(t *testing.T) {
	const callers, rounds, places, n = 24, 10, 2, 1000
	for i, slices := range []int{0, 1, 3, 0, 1} { // in one CopyAll; 0 is for Copy
		in := i < 3
		d := &crowdDriver{Driver: try(softgpu.Open(softgpu.Options{}))(t)}
		g := closeLater(t, try(OpenDriver(d, 0))(t))
		g.tuning.Ring.MaxTransfers, g.tuning.Ring.SlotWait = places, time.Hour // so that nobody loses a place
		device := closeLater(t, try(Alloc[byte](g, callers*3*n))(t))
		var all sync.WaitGroup
		for i := range callers {
			s, src := closeLater(t, try(NewStream(g, nil))(t)), make([]byte, 3*n)
			all.Go(func() {
				if err := copyManyTimes(s, device.Range(3*i*n, 3*(i+1)*n), src, in, slices, rounds); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most := d.most.Load(); most > places {
			t.Errorf("to the device: %v, %d slices: %d goroutines were in the driver at once, want at most %d", in, slices, most, places)
		}
		if want := int64(callers * rounds * max(1, slices)); d.calls.Load() != want {
			t.Errorf("to the device: %v, %d slices: %d copies by the driver, want %d", in, slices, d.calls.Load(), want)
		}
	}
}

// copyManyTimes copies host to device or back, in a number of slices of one CopyAll or, if it
// is 0, by Copy.
func copyManyTimes(s *Stream, device *Device[byte], host []byte, in bool, slices, rounds int) (err error) {
	var pairs []Pair[byte]
	for i, n := 0, len(host)/max(1, slices); i < slices || i == 0; i++ {
		p := Pair[byte]{device.Range(i*n, (i+1)*n), Pageable(host[i*n : (i+1)*n])}
		if !in {
			p.Dst, p.Src = p.Src, p.Dst
		}
		pairs = append(pairs, p)
	}
	for range rounds {
		if slices == 0 {
			err = errors.Join(err, Copy(s, pairs[0].Dst, pairs[0].Src))
		} else {
			err = errors.Join(err, CopyAll(s, pairs))
		}
	}
	return err
}

// heldDriver makes the first copy to the device wait until it is let go, as hardware does behind
// work in the stream. It hides that the driver is emulated: see crowdDriver.
type heldDriver struct {
	cu.Driver
	first         atomic.Bool
	entered, pass chan struct{}
}

func (d *heldDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if d.first.CompareAndSwap(false, true) {
		close(d.entered)
		<-d.pass
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

// TestForeignCopiesNeedNoPlace: a copy of a pageable slice that may wait in the driver for work of
// another library takes no place of the ring, for which others would wait.
func TestForeignCopiesNeedNoPlace(t *testing.T) {
	const n = stagedByDriver + 1
	for _, slices := range []int{0, 1} { // in one CopyAll; 0 is for Copy
		d := &heldDriver{Driver: try(softgpu.Open(softgpu.Options{}))(t), entered: make(chan struct{}), pass: make(chan struct{})}
		g := closeLater(t, try(OpenDriver(d, 0))(t))
		g.tuning.Ring.MaxTransfers, g.tuning.Ring.SlotWait, g.tuning.DirectIn = 1, time.Hour, 2*n
		foreign, other := closeLater(t, try(NewStream(g, nil))(t)), closeLater(t, try(NewStream(g, nil))(t))
		on := closeLater(t, try(Alloc[byte](g, 2*n))(t))
		foreign.Handle()
		all := make(chan error, 2)
		go func() { all <- copyManyTimes(foreign, on.Range(0, n), make([]byte, n), true, slices, 1) }()
		<-d.entered
		go func() { all <- copyManyTimes(other, on.Range(n, 2*n), make([]byte, n), true, slices, 1) }()
		select {
		case err := <-all:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%d slices: a copy waits for the place of one that waits for another library", slices)
		}
		close(d.pass)
		if err := <-all; err != nil {
			t.Error(err)
		}
	}
}

// sourceDriver records from where the last copy to the device came. It hides that the driver is emulated.
type sourceDriver struct {
	cu.Driver
	last atomic.Uint64
}

func (d *sourceDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	d.last.Store(uint64(address.Device(src)))
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

// TestDirectAlone: the driver makes a copy of 128 KiB of a plain slice while no other transfer runs, and the ring
// otherwise. The driver makes one of 64 KiB in both cases.
func TestDirectAlone(t *testing.T) {
	d := &sourceDriver{Driver: try(softgpu.Open(softgpu.Options{}))(t)}
	g := closeLater(t, try(OpenDriver(d, 0))(t))
	g.tuning.DirectIn = 1 << 20
	s, on := closeLater(t, try(NewStream(g, nil))(t)), closeLater(t, try(Alloc[byte](g, 2*stagedByDriver))(t))
	from := make([]byte, 2*stagedByDriver)
	byDriver := func(n int) bool {
		t.Helper()
		if err := errors.Join(Copy(s, on.Range(0, n), Pageable(from[:n])), s.Wait(context.Background())); err != nil {
			t.Fatal(err)
		}
		return d.last.Load() == uint64(address.Device(address.Of(from)))
	}
	check := func(when string, n int, want bool) {
		t.Helper()
		if got := byDriver(n); got != want {
			t.Errorf("%s: the driver itself copies %d bytes: %t, want %t", when, n, got, want)
		}
	}
	check("alone", 2*stagedByDriver, true)
	entered, pass, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- stagingRing(g).Call(context.Background(), func() error { close(entered); <-pass; return nil })
	}()
	<-entered
	check("beside another", 2*stagedByDriver, false)
	check("beside another", stagedByDriver, true)
	close(pass)
	if err := <-done; err != nil {
		t.Error(err)
	}
	check("alone again", 2*stagedByDriver, true)
}

// TestForeignStreamCompletesNothing: the ring may not take its transfers in a stream for done
// because Ferry knows its own work to be done.
func TestForeignStreamCompletesNothing(t *testing.T) {
	g := closeLater(t, try(OpenDriver(try(softgpu.Open(softgpu.Options{}))(t), 0))(t))
	for _, taken := range []bool{false, true} {
		s := closeLater(t, try(NewStream(g, nil))(t))
		on := closeLater(t, try(Alloc[byte](g, 1<<20))(t))
		if err := errors.Join(Copy(s, on, Pageable(make([]byte, 1<<20))), s.Wait(context.Background())); err != nil {
			t.Fatal(err)
		}
		if taken {
			s.Handle()
		}
		s.state.Enter()
		job := stagingJob(s.state, stagingRing(g))
		s.state.Leave()
		if (job.Completed == 0) != taken {
			t.Errorf("handle taken %t: transfers up to %d count as done", taken, job.Completed)
		}
	}
}

// TestListedCalls: a list returns the calls that were added, also those between three devices.
func TestListedCalls(t *testing.T) {
	const stream = 5
	l := copyList{st: &streamState{handle: stream}}
	var want []cu.Call
	for i := range 12 {
		c := cu.Call{Op: cu.OpMemcpyDtoDAsync, Dst: cu.DevicePtr(i), Src: cu.DevicePtr(100 + i), Bytes: uintptr(200 + i), Stream: stream}
		switch i % 4 {
		case 1:
			c.Op, c.DstCtx, c.SrcCtx = cu.OpMemcpyPeerAsync, cu.Context(1+i/8), 3
		case 2:
			c.Op, c.Src, c.Host = cu.OpMemcpyHtoDAsync, 0, address.Of([]int{i})
		}
		l.addCall(c)
		want = append(want, c)
	}
	var got cu.Batch
	l.appendTo(&got, 0, 5, false, nil)
	l.appendTo(&got, 5, len(want), false, nil)
	for i, c := range got.Calls() {
		if !reflect.DeepEqual(c, want[i]) {
			t.Errorf("call %d is %+v, want %+v", i, c, want[i])
		}
	}
	if got.Len() != len(want) {
		t.Errorf("%d calls, want %d", got.Len(), len(want))
	}
}
