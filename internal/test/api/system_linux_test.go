package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/forktest"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// descriptors returns the open files of a process, as "NUMBER -> TARGET".
func descriptors(pid string) (all []string) {
	dir := "/proc/" + pid + "/fd"
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			all = append(all, e.Name()+" -> "+target)
		}
	}
	return all
}

// TestNoDescriptorsInherited: a program that os/exec starts has only its standard files, whatever
// Ferry has open: a trace, files that it reads and writes, page-locked memory, rings and pools. On
// hardware the descriptors of NVIDIA's library are logged only.
func TestNoDescriptorsInherited(t *testing.T) {
	sample.SkipRace(t)
	if !inHelper(t) {
		path := filepath.Join(t.TempDir(), "recording.jsonl")
		out, err := helper(t, "FERRY_TRACE="+path, "FERRY_FAULT=cuMemAlloc:1000000:CUDA_ERROR_OUT_OF_MEMORY").CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	before := descriptors("self")
	g := openTest(t)
	newCallFixture(t, g, 1000)
	large := make([]byte, 16<<20)
	device := must(ferry.Upload(g, large))(t) // makes the ring
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	check(t, pool.Warm(context.Background(), 1<<20))
	path := filepath.Join(t.TempDir(), "data")
	check(t, os.WriteFile(path, large, 0o600))
	file := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer file.Close()
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, device, pool, s)
	check(t, last(ferry.CopyFrom(context.Background(), s, device, file)))
	if mine := strings.Join(descriptors("self"), "\n"); !strings.Contains(mine, os.Getenv("FERRY_TRACE")) || !strings.Contains(mine, path) {
		t.Errorf("the test has not opened what it should: %s", mine)
	}
	cmd := exec.Command("cat") // waits for the end of its input
	in, echo := must(cmd.StdinPipe())(t), must(cmd.StdoutPipe())(t)
	check(t, cmd.Start())
	check(t, last(in.Write([]byte("x"))))
	check(t, last(io.ReadFull(echo, make([]byte, 1)))) // now it has closed the files of its loader
	for _, line := range descriptors(fmt.Sprint(cmd.Process.Pid)) {
		number, target, _ := strings.Cut(line, " -> ")
		switch {
		case number == "0" || number == "1" || number == "2" || slices.Contains(before, line): // the last were inherited by this process
		case !g.Emulated() && !strings.Contains(target, os.Getenv("FERRY_TRACE")) && target != path:
			t.Logf("inherited, not Ferry's: %s", line)
		default:
			t.Errorf("a child inherits %s", line)
		}
	}
	check(t, in.Close())
	check(t, cmd.Wait())
}

// copyLoop copies n random bytes to the device and back through two kinds of memory until stop is
// closed, and compares them all.
func copyLoop(t *testing.T, g *ferry.GPU, n int, in, out ferry.Memory[byte], bytesIn, bytesOut []byte, stop chan struct{}) {
	s, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})
	if err != nil {
		t.Error(err)
		return
	}
	device, err := ferry.Alloc[byte](g, n)
	if err != nil {
		t.Error(err)
		return
	}
	defer closeAll(t, device, s)
	for rounds := 0; ; rounds++ {
		select {
		case <-stop:
			if rounds == 0 {
				t.Error("nothing was copied")
			}
			return
		default:
		}
		fillRandom(bytesIn)
		clear(bytesOut)
		if err := errors.Join(ferry.Copy(s, device, in), ferry.Copy(s, out, device), s.Wait(context.Background())); err != nil {
			t.Error(err)
			return
		}
		if !bytes.Equal(bytesIn, bytesOut) {
			t.Errorf("round %d: %T to %T: the bytes differ", rounds, in, out)
			return
		}
	}
}

// pipeLoop runs a pipeline that copies until stop is closed, and compares all bytes.
func pipeLoop(t *testing.T, g *ferry.GPU, n int, stop chan struct{}) {
	in, out := make([]byte, n), make([]byte, n)
	p := &pipeline.Pipeline{GPU: g, In: []pipeline.End{ferry.Pageable(in)}, Out: []pipeline.End{ferry.Pageable(out)}, InPlace: true,
		ChunkLen: n / 8, Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
	defer closeAll(t, p)
	for {
		select {
		case <-stop:
			return
		default:
		}
		fillRandom(in)
		clear(out)
		if _, err := p.Run(context.Background()); err != nil || !bytes.Equal(in, out) {
			t.Errorf("pipeline: %v; the bytes are equal: %v", err, bytes.Equal(in, out))
			return
		}
	}
}

// TestExecWhileCopies: hundreds of programs start, by os/exec, while copies run from and to
// page-locked, registered and pageable memory. All bytes arrive. Some children are made by a raw
// fork and write to the memory, so that the system separates their pages from those of the parent.
func TestExecWhileCopies(t *testing.T) {
	if !inHelper(t) {
		runHelper(t)
		return
	}
	g := openTest(t)
	const n = 4 << 20
	stop := make(chan struct{})
	var all sync.WaitGroup
	from, to := must(ferry.AllocHost[byte](g, n, nil))(t), must(ferry.AllocHost[byte](g, n, nil))(t)
	var own [4][]byte
	for i := range own {
		own[i] = make([]byte, n)
	}
	regIn, regOut := must(ferry.Register(g, own[0], nil))(t), must(ferry.Register(g, own[1], nil))(t)
	pinnedIn, pinnedOut := from.Slice(), to.Slice()
	all.Go(func() { copyLoop(t, g, n, from, to, pinnedIn, pinnedOut, stop) })
	all.Go(func() { copyLoop(t, g, n, regIn, regOut, own[0], own[1], stop) })
	all.Go(func() {
		copyLoop(t, g, n, ferry.Pageable(own[2]), ferry.Pageable(own[3]), own[2], own[3], stop)
	})
	all.Go(func() { pipeLoop(t, g, n, stop) })
	count := sample.Count(50, 300)
	for i := range count {
		if err := exec.Command("true").Run(); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 && !racebuild.On {
			if _, err := forktest.Run(func() string {
				for _, memory := range [][]byte{pinnedIn, pinnedOut, own[0], own[1]} {
					for i := 0; i < n; i += 4096 {
						memory[i]++
					}
				}
				return ""
			}); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	all.Wait()
	closeAll(t, from, to, regIn, regOut)
}

// exitVariable is set in a process that TestExit starts. Its value says how the process ends.
const exitVariable = "FERRY_TEST_EXIT"

// TestMain runs the tests or, for TestExit, ends the process with work in flight.
func TestMain(m *testing.M) {
	if how := os.Getenv(exitVariable); how != "" {
		exitWithWork(how)
		return
	}
	os.Exit(m.Run())
}

// exitWithWork queues copies, a kernel and a host function that never ends, starts a pipeline,
// and ends the process in one of several ways. It runs on the main goroutine.
func exitWithWork(how string) {
	name := "soft"
	if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
		name = "cuda"
	}
	die := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(99)
		}
	}
	g, err := ferry.Open(name)
	die(err)
	const n = 8 << 20
	host, err := ferry.AllocHost[float32](g, n, nil)
	die(err)
	device, err := ferry.Alloc[float32](g, n)
	die(err)
	module, err := ferry.Load(g, []byte(kernels.PTX), nil)
	die(err)
	add, err := module.Kernel("vector_add")
	die(err)
	stuck, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})
	die(err)
	free, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})
	die(err)
	die(stuck.HostFunc(func() { select {} }))
	for _, s := range []*ferry.Stream{free, stuck} {
		for range 8 {
			die(ferry.Copy(s, device, host))
			die(s.Launch(add, g.GridStride(n), device, device, device, uint64(n)))
			die(ferry.Copy(s, host, device))
		}
	}
	started := make(chan struct{})
	go func() {
		p := &pipeline.Pipeline{GPU: g, In: []pipeline.End{ferry.Pageable(make([]byte, n))}, ChunkLen: n / 64,
			Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
				if c.Index == 2 {
					close(started)
				}
				return nil
			}}
		_, _ = p.Run(context.Background())
	}()
	go func() { _, _ = ferry.Upload(g, make([]byte, 256<<20)) }()
	<-started
	fmt.Println("ready")
	switch how {
	case "exit":
		os.Exit(3)
	case "panic":
		panic("planted")
	case "goexit":
		go func() { time.Sleep(10 * time.Millisecond); os.Exit(4) }()
		runtime.Goexit()
	case "wait":
		time.Sleep(time.Hour)
	}
}

// ignoresInterrupt is set in a process that began with SIGINT ignored.
var ignoresInterrupt = signal.Ignored(syscall.SIGINT)

// needsInterrupt skips a test that interrupts other processes, if these would ignore that.
func needsInterrupt(t *testing.T) {
	t.Helper()
	if ignoresInterrupt {
		t.Skip("this process was started with SIGINT ignored, as a shell does it in the background, and so are its children")
	}
}

// TestExit: a process with copies, kernels, a pipeline and a host function in flight ends at once,
// with its own status, and does not wait for the work. Interrupts and kills end it, too.
func TestExit(t *testing.T) {
	sample.SkipRace(t)
	for how, want := range map[string]string{
		"return": "exit status 0", "exit": "exit status 3", "panic": "exit status 2", "goexit": "exit status 4",
		"SIGINT": "signal: interrupt", "SIGKILL": "signal: killed",
	} {
		t.Run("how="+how, func(t *testing.T) {
			t.Parallel()
			if how == "SIGINT" {
				needsInterrupt(t)
			}
			cmd := helper(t, exitVariable+"="+strings.NewReplacer("SIGINT", "wait", "SIGKILL", "wait").Replace(how))
			var text bytes.Buffer
			cmd.Stderr = &text
			out := must(cmd.StdoutPipe())(t)
			check(t, cmd.Start())
			ready := make([]byte, 6)
			if _, err := io.ReadFull(out, ready); err != nil {
				rest, _ := io.ReadAll(out)
				t.Fatalf("%v: %s%s%v", err, ready, rest, cmd.Wait())
			}
			switch how {
			case "SIGINT":
				check(t, cmd.Process.Signal(syscall.SIGINT))
			case "SIGKILL":
				check(t, cmd.Process.Kill())
			}
			began := time.Now()
			_ = cmd.Wait()
			if got := cmd.ProcessState.String(); got != want || time.Since(began) > timeout {
				t.Errorf("it ended as %q after %v, want %q soon: %s%s", got, time.Since(began), want, ready, text.String())
			}
		})
	}
}

// lockedMemory returns the lines of this process's status about locked and pinned memory.
func lockedMemory(t *testing.T) (all string) {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile("/proc/self/status"))(t))) {
		if strings.HasPrefix(line, "VmLck:") || strings.HasPrefix(line, "VmPin:") {
			all += line
		}
	}
	return all
}

// interrupter is a Reader that interrupts the process at its third call.
type interrupter struct{ calls int }

func (r *interrupter) Read(p []byte) (int, error) {
	if r.calls++; r.calls == 3 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
	}
	return len(p), nil
}

// TestInterrupt: an interrupt in the middle of page-locking, and of a pipeline, by
// signal.NotifyContext. The call returns the context's error. Then nothing is locked, allocated or
// running that was not before, and all can be done again.
func TestInterrupt(t *testing.T) {
	sample.SkipRace(t)
	gputest.Needs(t, cu.DeviceAttributeCanUseHostPointerForRegisteredMem) // otherwise page-locking is one call
	if !inHelper(t) {
		runHelper(t)
		return
	}
	inner := softDriver(t, "h200", 1, softgpu.Eager)
	if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
		inner = must(libcuda.Open())(t)
	}
	d := fault.Wrap(inner, fault.Options{})
	g := openDriver(t, d)
	late := make(chan os.Signal, 1) // a signal that comes after the end of its context ends no process
	signal.Notify(late, syscall.SIGINT)
	interrupt := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) }
	const gib = 1 << 30
	pin := func(ctx context.Context, progress func(int, int)) error {
		h, err := ferry.AllocHostContext[byte](ctx, g, 2*gib, &ferry.HostOptions{Progress: progress})
		if err == nil {
			err = h.Close()
		}
		return err
	}
	run := func(ctx context.Context, r io.Reader) error {
		p := &pipeline.Pipeline{GPU: g, In: []pipeline.End{pipeline.From[byte](r)}, ChunkLen: 1 << 20, Len: gib,
			Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
		_, err := p.Run(ctx)
		return errors.Join(err, p.Close())
	}
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	for name, call := range map[string]func(ctx context.Context) error{
		"page-lock": func(ctx context.Context) error {
			return pin(ctx, func(done, _ int) {
				if done < gib {
					interrupt()
				}
			})
		},
		"warm a pool": func(ctx context.Context) error {
			interrupt()
			<-ctx.Done()
			return pool.Warm(ctx, gib)
		},
		"pipeline": func(ctx context.Context) error { return run(ctx, new(interrupter)) },
	} {
		check(t, g.Wait(context.Background()))
		locked, live, goroutines := lockedMemory(t), d.Live(), runtime.NumGoroutine()
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
		err := within(t, name, func() error { return call(ctx) })
		stop()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the context's error", name, err)
		}
		clean := func() bool { // os/signal keeps a goroutine, and in race builds the software GPU keeps some for reports
			return lockedMemory(t) == locked && len(d.Live()) == len(live) && (racebuild.On || runtime.NumGoroutine() <= goroutines+1)
		}
		for end := time.Now().Add(timeout / 3); !clean() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		if !clean() {
			stacks := make([]byte, 1<<16)
			t.Errorf("%s leaves behind: locked %s, before %s; live %q, before %q; %d goroutines, before %d\n%s", name, lockedMemory(t), locked,
				d.Live(), live, runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
		}
	}
	check(t, pin(context.Background(), nil))
	check(t, run(context.Background(), io.LimitReader(new(bytesForEver), gib)))
	closeAll(t, pool)
}

// bytesForEver reads zeros.
type bytesForEver struct{}

func (*bytesForEver) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestKilledLeavesNothing: a process holds most of the GPU's memory, and page-locked memory, and is
// killed. Another can then take as much.
func TestKilledLeavesNothing(t *testing.T) {
	gputest.NeedsH200(t, "its memory")
	sample.SkipRace(t)
	if inHelper(t) {
		g := openTest(t)
		_, total, err := g.MemInfo()
		check(t, err)
		size := total / 4 * 3
		if g.Emulated() {
			size = 1 << 30 // the memory is this computer's
		}
		device, host := must(ferry.Alloc[byte](g, size))(t), must(ferry.AllocHost[byte](g, 1<<30, nil))(t)
		fmt.Println("\nready")
		if os.Getenv(exitVariable+"_HOLD") == "1" {
			time.Sleep(time.Hour)
		}
		closeAll(t, device, host)
		return
	}
	for _, sig := range []os.Signal{syscall.SIGKILL, syscall.SIGINT} {
		if sig == syscall.SIGINT {
			needsInterrupt(t)
		}
		cmd := helper(t, exitVariable+"_HOLD=1")
		out := must(cmd.StdoutPipe())(t)
		check(t, cmd.Start())
		text := ""
		for buf := make([]byte, 1000); !strings.Contains(text, "ready"); {
			n, err := out.Read(buf)
			if text += string(buf[:n]); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
		check(t, cmd.Process.Signal(sig))
		_ = cmd.Wait()
		runHelper(t)
	}
}

// TestRegisterFile registers and copies a file that is mapped for reading.
func TestRegisterFile(t *testing.T) {
	g := openTest(t)
	if !canRegisterReadOnly(g) {
		t.Skip("the device cannot register read-only memory")
	}
	path := filepath.Join(t.TempDir(), "data")
	want := make([]byte, 1<<16)
	fillRandom(want)
	check(t, os.WriteFile(path, want, 0o600))
	file := must(os.Open(path))(t)
	defer closeAll(t, file)
	memory := must(syscall.Mmap(int(file.Fd()), 0, len(want), syscall.PROT_READ, syscall.MAP_PRIVATE))(t)
	defer func() { check(t, syscall.Munmap(memory)) }()
	s := must(ferry.NewStream(g, nil))(t)
	r := must(ferry.Register(g, memory, &ferry.RegisterOptions{ReadOnly: true}))(t)
	d := must(ferry.Alloc[byte](g, len(want)))(t)
	check(t, ferry.Copy(s, d, r))
	got := make([]byte, len(want))
	check(t, ferry.Copy(s, ferry.Pageable(got), d))
	if string(got) != string(want) {
		t.Error("the bytes differ")
	}
	closeAll(t, r, d, s)
}

// TestRegisterWithoutAccess: the advice for memory that may be neither read nor written is
// not ReadOnly, which fails as well, and it helps.
func TestRegisterWithoutAccess(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported)
	g := openTest(t)
	const page = 1 << 16
	memory := must(syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
	defer func() { check(t, syscall.Munmap(memory)) }()
	barred := memory[page : 2*page]
	check(t, syscall.Mprotect(barred, syscall.PROT_NONE))
	for _, part := range [][]byte{barred, memory, memory[page-1 : page+1]} {
		for _, o := range []*ferry.RegisterOptions{nil, {ReadOnly: true}} {
			if o != nil && !canRegisterReadOnly(g) {
				continue
			}
			_, err := ferry.Register(g, part, o)
			wantError(t, err, cu.ErrorInvalidValue, "PROT_NONE", "mprotect")
			if err != nil && strings.Contains(err.Error(), "ReadOnly") {
				t.Errorf("it advises what fails as well: %v", err)
			}
		}
	}
	check(t, syscall.Mprotect(memory, syscall.PROT_READ|syscall.PROT_WRITE))
	closeAll(t, must(ferry.Register(g, memory, nil))(t))
	check(t, syscall.Mprotect(memory, syscall.PROT_READ))
	_, err := ferry.Register(g, memory, nil)
	wantError(t, err, cu.ErrorInvalidValue, "ReadOnly")
	if canRegisterReadOnly(g) {
		closeAll(t, must(ferry.Register(g, memory, &ferry.RegisterOptions{ReadOnly: true}))(t))
	}
}

func canRegisterReadOnly(g *ferry.GPU) bool {
	n, err := g.Attribute(cu.DeviceAttributeReadOnlyHostRegisterSupported)
	return err == nil && n != 0
}

// TestRegisteredMemoryGoes: a copy whose registered memory was unmapped, or whose file was
// truncated, is told by name and code. Wait tells it, or Download of what should have been
// written. The GPU stays usable.
func TestRegisteredMemoryGoes(t *testing.T) {
	const n = 64 << 10
	for _, way := range []string{"unmapped", "truncated"} {
		path := filepath.Join(t.TempDir(), "data")
		check(t, os.WriteFile(path, make([]byte, n), 0o600))
		file := must(os.Open(path))(t)
		g := must(ferry.Open("soft:h200"))(t)
		s, d := must(ferry.NewStream(g, nil))(t), must(ferry.Alloc[byte](g, n))(t)
		b := must(syscall.Mmap(int(file.Fd()), 0, n, syscall.PROT_READ, syscall.MAP_SHARED))(t)
		r := must(ferry.Register(g, b, &ferry.RegisterOptions{ReadOnly: true}))(t)
		if way == "unmapped" {
			check(t, syscall.Mprotect(b, syscall.PROT_NONE)) // so that nothing else gets the addresses
		} else {
			check(t, os.Truncate(path, 0))
		}
		told := func(err error) {
			t.Helper()
			failed, ok := errors.AsType[*cu.OperationError](err)
			if !ok || failed.Operation != "copy 65536 bytes host to device" || !errors.Is(err, cu.ErrorInvalidValue) || strings.Contains(err.Error(), "kernel") {
				t.Errorf("%s: got %v", way, err)
			}
		}
		check(t, ferry.Copy(s, d, r))
		told(s.Wait(t.Context()))
		check(t, s.Wait(t.Context()))
		check(t, ferry.Copy(s, d, r))
		_, err := ferry.Download(d)
		told(errors.Join(err, s.Wait(t.Context())))
		check(t, ferry.Fill(s, d, 7))
		if got := must(ferry.Download(d))(t); got[0] != 7 || got[n-1] != 7 {
			t.Errorf("%s: after the error a fill wrote %d", way, got[0])
		}
		closeAll(t, r, s, d, g, file)
	}
}
