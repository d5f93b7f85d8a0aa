package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// The tests name files by their path in the repository, so they run in its root. A process that
// a test starts may be elsewhere, and stays there.
func init() {
	const root = "../../.."
	if _, err := os.Stat(root + "/internal/test/api"); err != nil {
		return
	}
	if err := os.Chdir(root); err != nil {
		panic(err)
	}
}

// checked reports whether FERRY_CHECK watches the driver. Its calls allocate then.
func checked() bool {
	on, _ := checks.On(checks.Memory)
	return on
}

// openTest opens the device to test: FERRY_DEVICE, else the software GPU. With
// FERRY_REQUIRE_GPU=1 it is a real GPU or a failure.
func openTest(t testing.TB) *ferry.GPU {
	t.Helper()
	name := os.Getenv(ferry.SpecVariable)
	switch {
	case os.Getenv("FERRY_REQUIRE_GPU") == "1":
		name = "cuda"
	case name == "":
		return openSoft(t, "h200", softgpu.Eager)
	}
	g := must(ferry.Open(name))(t)
	t.Cleanup(func() { closeAll(t, g) })
	return g
}

// openDriver opens the first device of a driver.
func openDriver(t testing.TB, d cu.Driver) *ferry.GPU {
	t.Helper()
	g := must(ferry.OpenDriver(d, 0))(t)
	t.Cleanup(func() { closeAll(t, g) })
	return g
}

// openSoft opens a software GPU of a profile and a schedule.
func openSoft(t testing.TB, name string, schedule softgpu.Schedule) *ferry.GPU {
	t.Helper()
	return openDriver(t, softDriver(t, name, 1, schedule))
}

// openTimed opens a software GPU for tests that compare times. It has the eager schedule,
// whatever the environment says.
func openTimed(t testing.TB, name string) *ferry.GPU {
	t.Helper()
	t.Setenv(softgpu.ScheduleVariable, softgpu.Eager.String())
	return openSoft(t, name, softgpu.Eager)
}

func softDriver(t testing.TB, name string, devices int, schedule softgpu.Schedule) cu.Driver {
	t.Helper()
	p := must(profile.Named(name))(t)
	if name == "h200" {
		p = gputest.H200(t)
	}
	return must(softgpu.Open(softgpu.Options{Profile: p, Devices: devices, Schedule: schedule}))(t)
}

// onTwoGPUs runs a test on two software GPUs, and on two real ones where GPUs are
// required.
func onTwoGPUs(t *testing.T, test func(t *testing.T, a, b *ferry.GPU)) {
	t.Run("device=soft:h200*2", func(t *testing.T) {
		all := must(ferry.OpenAll("soft:h200*2"))(t)
		test(t, all[0], all[1])
		closeAll(t, all[0], all[1])
	})
	t.Run("device=cuda", func(t *testing.T) {
		if os.Getenv("FERRY_REQUIRE_GPU") != "1" {
			t.Skip("FERRY_REQUIRE_GPU is not 1")
		}
		all := must(ferry.OpenAll("cuda"))(t)
		defer func() {
			for _, g := range all {
				closeAll(t, g)
			}
		}()
		if len(all) < 2 {
			t.Skip("there is one GPU")
		}
		test(t, all[0], all[1])
	})
}

// gpuName is how errors name a GPU.
func gpuName(g *ferry.GPU) string {
	if g.Emulated() {
		return "soft:" + g.Profile()
	}
	return "cuda:0"
}

// closeAll and wantError are what tests of several packages need.
var (
	closeAll  = gputest.CloseAll
	wantError = gputest.WantError
)

// fromPool returns a new buffer of n elements from a pool.
func fromPool[T any](p *ferry.PinnedPool, n int) (*ferry.Host[T], error) {
	h := new(ferry.Host[T])
	if err := h.Alloc(p, n); err != nil {
		return nil, err
	}
	return h, nil
}

// must returns v, or ends the test for an error. It skips the test if the chosen machine
// lacks what the call needs.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			gputest.SkipIfLacking(t, err)
			t.Fatal(err)
		}
		return v
	}
}

// check ends the test for an error, or skips it, as must does.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		gputest.SkipIfLacking(t, err)
		t.Fatal(err)
	}
}

// sliceError returns the error that Slice or ReadSlice panics with, nil if it returns.
func sliceError[T any](slice func() []T) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = v.(error)
		}
	}()
	slice()
	return nil
}

// fillRandom fills a slice with other bytes at each call.
func fillRandom(b []byte) {
	var seed [32]byte
	binary.NativeEndian.PutUint64(seed[:], rand.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(b)
}

// wantBytes compares all bytes and reports the first that differs.
func wantBytes(t *testing.T, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("byte %d is %#x, want %#x", i, got[i], want[i])
		}
	}
}

// shortWait is long enough to see that something does not happen. timeout is longer than
// anything that a test waits for takes.
const (
	shortWait = 30 * time.Millisecond
	timeout   = 30 * time.Second
)

// gate blocks a stream until open is called.
func gate(t *testing.T, s *ferry.Stream) (open func()) {
	t.Helper()
	c := make(chan struct{})
	check(t, s.HostFunc(func() { <-c }))
	return func() { close(c) }
}

// gateFor blocks a stream until open is called, but not longer than timeout. open
// reports whether the stream was still blocked.
func gateFor(t *testing.T, s *ferry.Stream) (open func() bool) {
	t.Helper()
	c := make(chan struct{})
	watch := time.AfterFunc(timeout, func() { close(c) })
	check(t, s.HostFunc(func() { <-c }))
	return func() bool {
		if !watch.Stop() {
			return false
		}
		close(c)
		return true
	}
}

// waits checks that f does not return before open is called, and returns then.
func waits(t *testing.T, what string, open func(), f func()) {
	t.Helper()
	begun, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); close(begun); f() }()
	<-begun
	select {
	case <-done:
		t.Errorf("%s did not wait", what)
	case <-time.After(shortWait):
	}
	open()
	select {
	case <-done:
	case <-time.After(timeout):
		t.Fatalf("%s did not return", what)
	}
}

// eventually polls until ok is true. It ends the test if that takes longer than timeout.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s after %v", what, timeout)
		}
	}
}

// load loads the kernels of package kernels and finds one.
func load(t testing.TB, g *ferry.GPU, name string) (*ferry.Module, *ferry.Kernel) {
	t.Helper()
	m := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	return m, must(m.Kernel(name))(t)
}

// bytesKind is a kind of memory to test with.
type bytesKind struct {
	name  string
	needs cu.DeviceAttribute // what the device must have; 0 for nothing
	make  func(*ferry.GPU, int) (bytesMemory, error)
}

// bytesMemory is a buffer of bytes of any kind.
type bytesMemory struct {
	ferry.Memory[byte]
	part  func(i, j int) ferry.Memory[byte]
	slice func() []byte // nil for device memory
	close func() error
}

// set writes all bytes of the memory.
func (m bytesMemory) set(t testing.TB, s *ferry.Stream, data []byte) {
	t.Helper()
	if m.slice != nil {
		copy(m.slice(), data)
		return
	}
	check(t, ferry.Copy(s, m.Memory, ferry.Pageable(data)))
}

// get returns a copy of all bytes.
func (m bytesMemory) get(t testing.TB, s *ferry.Stream) []byte {
	t.Helper()
	if m.slice != nil {
		return bytes.Clone(m.slice())
	}
	data := make([]byte, m.Len())
	check(t, ferry.Copy(s, ferry.Pageable(data), m.Memory))
	return data
}

func hostKind(name string, needs cu.DeviceAttribute, o *ferry.HostOptions) bytesKind {
	return bytesKind{name, needs, func(g *ferry.GPU, n int) (bytesMemory, error) {
		h, err := ferry.AllocHost[byte](g, n, o)
		return hostBytes(h), err
	}}
}

func registeredKind(name string, needs cu.DeviceAttribute, o *ferry.RegisterOptions) bytesKind {
	return bytesKind{name, needs, func(g *ferry.GPU, n int) (bytesMemory, error) {
		h, err := ferry.Register(g, make([]byte, n+3)[3:], o) // at an odd address
		return hostBytes(h), err
	}}
}

func hostBytes(h *ferry.Host[byte]) bytesMemory {
	return bytesMemory{h, func(i, j int) ferry.Memory[byte] { return h.Range(i, j) }, h.Slice, h.Close}
}

var bytesKinds = []bytesKind{
	{"device", 0, func(g *ferry.GPU, n int) (bytesMemory, error) {
		d, err := ferry.Alloc[byte](g, n)
		return bytesMemory{d, func(i, j int) ferry.Memory[byte] { return d.Range(i, j) }, nil, d.Close}, err
	}},
	hostKind("host", 0, nil),
	hostKind("mapped", cu.DeviceAttributeCanMapHostMemory, &ferry.HostOptions{Mapped: true}),
	hostKind("write-combined", 0, &ferry.HostOptions{WriteCombined: true}),
	hostKind("not portable", 0, &ferry.HostOptions{NotPortable: true}),
	registeredKind("registered", cu.DeviceAttributeHostRegisterSupported, nil),
	registeredKind("registered mapped", cu.DeviceAttributeHostRegisterSupported, &ferry.RegisterOptions{Mapped: true}),
	{"managed", cu.DeviceAttributeManagedMemory, func(g *ferry.GPU, n int) (bytesMemory, error) {
		m, err := ferry.AllocManaged[byte](g, n, nil)
		return bytesMemory{m, func(i, j int) ferry.Memory[byte] { return m.Range(i, j) }, m.Slice, m.Close}, err
	}},
	{"pageable", 0, func(g *ferry.GPU, n int) (bytesMemory, error) {
		p := ferry.Pageable(make([]byte, n))
		return bytesMemory{p, func(i, j int) ferry.Memory[byte] { return p.Range(i, j) }, p.Slice, func() error { return nil }}, nil
	}},
}

// kindsOf returns the kinds of memory that a device has. Where the driver does not know an
// attribute, the kind is among them.
func kindsOf(g *ferry.GPU) []bytesKind {
	var kinds []bytesKind
	for _, k := range bytesKinds {
		if n, err := g.Attribute(cu.DeviceAttributeCanMapHostMemory); err == nil && n == 0 && strings.HasSuffix(k.name, "mapped") {
			continue
		}
		if n, err := g.Attribute(k.needs); k.needs == 0 || err != nil || n != 0 {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// callFixture has what the common calls need: copy, launch and record.
type callFixture struct {
	stream *ferry.Stream
	host   *ferry.Host[byte]
	device *ferry.Device[byte]
	add    *ferry.Kernel
	floats *ferry.Device[float32]
	event  *ferry.Event
}

func newCallFixture(t testing.TB, g *ferry.GPU, bytes int) *callFixture {
	t.Helper()
	c := &callFixture{
		stream: must(ferry.NewStream(g, nil))(t),
		host:   must(ferry.AllocHost[byte](g, bytes, nil))(t),
		device: must(ferry.Alloc[byte](g, bytes))(t),
		floats: must(ferry.Alloc[float32](g, 1024))(t),
		event:  must(ferry.NewEvent(g, &ferry.EventOptions{NoTiming: true}))(t),
	}
	m := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	c.add = must(m.Kernel("vector_add"))(t)
	t.Cleanup(func() { closeAll(t, c.stream, c.host, c.device, c.floats, c.event, m) })
	return c
}

func (c *callFixture) copy() error { return ferry.Copy(c.stream, c.device, c.host) }

func (c *callFixture) launch(n uint64) error {
	return c.stream.Launch(c.add, ferry.Cover(int(n), 256), c.floats, c.floats, c.floats, n)
}

// step copies in, launches, copies out and records. It does not call Launch through the
// interface Queue, because the argument list would then be allocated.
func (c *callFixture) step() error {
	if err := c.copy(); err != nil {
		return err
	}
	if err := c.launch(1024); err != nil {
		return err
	}
	if err := ferry.Copy(c.stream, c.host, c.device); err != nil {
		return err
	}
	return c.stream.Record(c.event)
}

// list adds the operations of step to a batch.
func (c *callFixture) list(q *ferry.Batch) error {
	if err := ferry.Copy(q, c.device, c.host); err != nil {
		return err
	}
	if err := q.Launch(c.add, ferry.Cover(1024, 256), c.floats, c.floats, c.floats, uint64(1024)); err != nil {
		return err
	}
	if err := ferry.Copy(q, c.host, c.device); err != nil {
		return err
	}
	return q.Record(c.event)
}

// wantReport collects garbage until there is a report, and checks its text.
func wantReport(t *testing.T, reports <-chan string, part string) {
	t.Helper()
	for end := time.Now().Add(timeout); time.Now().Before(end); runtime.GC() {
		select {
		case got := <-reports:
			if !strings.Contains(got, part) {
				t.Errorf("got %q, want %q in it", got, part)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("no report")
}

// helperVariable is set in a process that a test starts from its own binary. Its value is the
// name of the test.
const helperVariable = "FERRY_TEST_HELPER"

// inHelper reports whether this process was started by helper.
func inHelper(t *testing.T) bool { return os.Getenv(helperVariable) == t.Name() }

// helper returns a command that runs a test again, in a process where inHelper is true.
func helper(t *testing.T, environment ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*timeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, must(os.Executable())(t), "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), helperVariable+"="+t.Name(), "FERRY_QUIET=1"), environment...)
	return cmd
}

// runHelper runs a test in another process, which must pass.
func runHelper(t *testing.T) {
	t.Helper()
	if out, err := helper(t).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
