package sweep

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/internal/unordered"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

var budget = flag.Duration("budget", 50*time.Second, "how long to try failures on a GPU")

// part returns how many failures there are for one that is tried.
func part() int { return sample.Count(16, 1) }

// hung is how long a run may take.
const hung = 30 * time.Second

// failure is a way in which a call fails.
type failure struct {
	mode fault.Mode
	code cu.Result
}

// failures are the ways that are always tried.
var failures = []failure{
	{fault.Refused, cu.ErrorInvalidValue}, {fault.Refused, cu.ErrorOutOfMemory}, {fault.Refused, cu.ErrorNotSupported},
	{fault.Done, cu.ErrorOutOfMemory}, {fault.Sticky, cu.ErrorLaunchFailed}, {fault.Sticky, cu.ErrorECCUncorrectable}, {fault.Late, 0},
	{fault.Async, cu.ErrorIllegalAddress}, {fault.LateCallback, 0},
}

// ways returns the failures that are tried: those above or, with [sample.Full], every code.
func ways() []failure {
	all := slices.Clone(failures)
	if !sample.Full() {
		return all
	}
	for _, code := range fault.Codes() {
		all = append(all, failure{fault.Refused, code})
	}
	for code := range cu.Result(1000) {
		if code.Sticky() {
			all = append(all, failure{fault.Sticky, code}, failure{fault.Async, code})
		}
	}
	return all
}

// TestSweep runs each scenario once for each driver call that it makes and each way to
// fail. Each run ends in time, without a panic, with the error, or with right data; it
// leaves nothing allocated and no goroutine. It tries a sample, with [sample.Full] all.
func TestSweep(t *testing.T) {
	sweep(t, part(), func(t *testing.T) cu.Driver { return open(t, 2) }, func(cu.Driver) {})
}

// TestSweepAsHardware is TestSweep for a software GPU that Ferry takes for hardware, so that
// it polls, and waits before it frees. It tries a sixteenth of the runs.
func TestSweepAsHardware(t *testing.T) {
	sweep(t, 16*part(), func(t *testing.T) cu.Driver { return &gputest.Holding{Driver: open(t, 2)} }, func(cu.Driver) {})
}

// TestSweepOnGPU is TestSweep on the GPU of the machine, for the time of -budget. The primary
// contexts stay while it runs, because making one takes long. After a free was refused they are
// released, and what was not freed goes with them.
func TestSweepOnGPU(t *testing.T) {
	d := gputest.Driver(t)
	hold(t, d)
	defer release(t, d)
	sweep(t, 0, func(t *testing.T) cu.Driver { return gputest.Driver(t) }, func(d cu.Driver) { release(t, d); hold(t, d) })
}

// open opens a software GPU of a number of devices. Its staging ring is small: after a fault, or
// a free that was refused, page-locked memory stays for good, and a full sweep makes 100,000 of these.
func open(t *testing.T, devices int) cu.Driver {
	t.Helper()
	p, err := profile.Named("h200")
	if err != nil {
		t.Fatal(err)
	}
	p.Staging.Chunk.Value, p.Staging.DirectHtoD.Value = 64<<10, 32<<10
	d, err := softgpu.Open(softgpu.Options{Devices: devices, Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// hold retains the primary contexts of all devices.
func hold(t *testing.T, d cu.Driver) {
	t.Helper()
	for _, device := range devicesOf(t, d) {
		if _, err := d.DevicePrimaryCtxRetain(device); err != nil {
			t.Fatal(err)
		}
	}
}

// release releases the primary contexts of all devices until nobody retains them.
func release(t *testing.T, d cu.Driver) {
	t.Helper()
	for _, device := range devicesOf(t, d) {
		for {
			_, active, err := d.DevicePrimaryCtxGetState(device)
			if err == nil && active != 0 {
				err = d.DevicePrimaryCtxRelease(device)
			}
			if err != nil {
				t.Fatal(err)
			}
			if active == 0 {
				break
			}
		}
	}
}

func devicesOf(t *testing.T, d cu.Driver) []cu.Device {
	t.Helper()
	count, err := d.DeviceGetCount()
	if err != nil {
		t.Fatal(err)
	}
	return gputest.Devices(t, d, count)
}

// sweep tries one of part of the failures of each scenario, at least one, and in each way one if
// part is small. If part is 0, it tries failures for the time of -budget. open opens the driver. After a free was refused, clean frees
// what is left, and open is called again: what is left must not disturb later runs.
func sweep(t *testing.T, part int, open func(*testing.T) cu.Driver, clean func(cu.Driver)) {
	random := sample.Rand(t)
	runs := 0
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			began := time.Now()
			d := open(t)
			plain := fault.Wrap(d, fault.Options{})
			if err := run(s, plain); err != nil {
				t.Fatalf("without a failure: %v", err)
			}
			if live := left(plain); len(live) > 0 {
				t.Errorf(s.Name+" without a failure: left %v", live)
			}
			tried := map[failure]bool{}
			end := map[failure]uint64{} // from which call on none fails, because the mode counts fewer
			for _, c := range random.Perm(len(ways()) * int(plain.Calls())) {
				f, nth := ways()[c/int(plain.Calls())], uint64(c)%plain.Calls()+1
				first := len(tried) == 0 || !tried[f] && part <= 2*len(failures)
				switch {
				case part == 0 && time.Since(began) > *budget/time.Duration(len(Scenarios)):
					return
				case part > 0 && !first && random.IntN(part) != 0, end[f] != 0 && nth >= end[f]:
					continue
				}
				what := try(t, s, d, fault.Options{Nth: nth, Mode: f.mode, Code: f.code, Delay: time.Millisecond})
				if what == "" {
					end[f] = nth
					continue
				}
				tried[f] = true
				if runs++; isRefusedFree(what) {
					clean(d)
					d = open(t)
				}
			}
		})
	}
	t.Logf("%d runs", runs)
}

// run opens a device of a driver, runs a scenario and closes the device.
func run(s Scenario, d cu.Driver) error {
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		return err
	}
	return errors.Join(s.Run(context.Background(), g), g.Close())
}

// guarded runs f. It returns a panic as an error, and fails the test if f hangs.
func guarded(t *testing.T, d *fault.Driver, what string, f func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				ended <- fmt.Errorf("PANIC: %v\n%s", v, stack())
			}
		}()
		ended <- f()
	}()
	var err error
	const ticks = 100 // a machine that stands still for a while makes only one of them late
	for i, waits := 0, true; waits; i++ {
		select {
		case err = <-ended:
			waits = false
		case <-time.After(hung / ticks):
			if i == ticks {
				t.Fatalf("%s: hung after %s\n%s", what, d.Failed(), stack())
			}
		}
	}
	if err != nil && (strings.Contains(err.Error(), "PANIC") || strings.Contains(err.Error(), "wrong data")) {
		t.Errorf("%s: %s: %v", what, d.Failed(), err)
	}
	return err
}

// try runs a scenario with one failure and checks what is left. It returns which call failed,
// "" if none did.
func try(t *testing.T, s Scenario, soft cu.Driver, o fault.Options) (what string) {
	t.Helper()
	before := runtime.NumGoroutine()
	d := fault.Wrap(soft, o)
	err := guarded(t, d, s.Name, func() error { return run(s, d) })
	what = d.Failed()
	switch {
	case what == "" || o.Mode == fault.Late || o.Mode == fault.LateCallback:
		if err != nil {
			t.Errorf("%q: error %v", what, err)
		}
	case err == nil && o.Code != cu.ErrorPeerAccessAlreadyEnabled && !mayBeIgnored(s.Name, what): // what is enabled is as wanted
		t.Errorf("%s: no error", what)
	case err != nil && !errors.Is(err, o.Code) && !strings.HasPrefix(what, "cuDeviceGetAttribute"): // a capability is missing
		t.Errorf("%s: error %v, want the code in it", what, err)
	}
	if !isRefusedFree(what) {
		if live := left(d); len(live) > 0 {
			t.Errorf("%s: left %v; error %v", what, live, err)
		}
	}
	more := func() bool { return !unordered.Enabled && runtime.NumGoroutine() > before } // a race build of the software GPU keeps goroutines
	if !isRefusedFree(what) && !soon(func() bool { return !more() }) {                   // what is not freed keeps the GPU and its workers
		t.Fatalf("%s: %d goroutines, before %d\n%s", what, runtime.NumGoroutine(), before, stack())
	}
	return what
}

// left returns what is not freed. Other goroutines may still free what abandoned calls used.
func left(d *fault.Driver) []string {
	soon(func() bool { return len(d.Live()) == 0 })
	return d.Live()
}

// soon reports whether something happens within two seconds.
func soon(happens func() bool) bool {
	for range 2000 {
		if happens() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return happens()
}

// TestSeveralFailures: with calls that fail at random, all codes, refused and done mixed, and
// with too little memory, each scenario ends, and without a panic or wrong data.
func TestSeveralFailures(t *testing.T) {
	soft, err := softgpu.Open(softgpu.Options{Devices: 2})
	if err != nil {
		t.Fatal(err)
	}
	random := sample.Rand(t)
	for _, s := range Scenarios {
		for i := range uint64(20) {
			o := fault.Options{Every: 4 << (i % 4), Seed: random.Uint64()}
			if i%5 == 4 {
				o = fault.Options{MemoryLimit: 1 << (8 + i)}
			}
			d := fault.Wrap(soft, o)
			_ = guarded(t, d, fmt.Sprintf("%s, %+v", s.Name, o), func() error { return run(s, d) }) // it may fail
		}
	}
}

// TestOtherDevices: when a call on one device fails, every scenario runs on the other device.
func TestOtherDevices(t *testing.T) {
	for _, mode := range []fault.Mode{fault.Refused, fault.Sticky, fault.Async} {
		soft, err := softgpu.Open(softgpu.Options{Devices: 3})
		if err != nil {
			t.Fatal(err)
		}
		d := fault.Wrap(soft, fault.Options{Call: "cuMemcpyHtoDAsync", Nth: 1, Mode: mode, Code: cu.ErrorLaunchFailed, OneContext: true})
		g, err := ferry.OpenDriver(d, 0)
		if err != nil {
			t.Fatal(err)
		}
		other, err := ferry.OpenDriver(d, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := Scenarios[0].Run(t.Context(), g); !errors.Is(err, cu.ErrorLaunchFailed) {
			t.Errorf("%v: device 0: %v", mode, err)
		}
		for _, s := range Scenarios {
			if err := guarded(t, d, s.Name, func() error { return s.Run(t.Context(), other) }); err != nil {
				t.Errorf("%v: %s on device 1: %v", mode, s.Name, err)
			}
		}
		if err := other.Close(); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		_ = g.Close() // it may be lost
	}
}

// TestMissingCallback: while a host function never comes, each wait ends with its context, and
// another stream goes on. After the function has come all can be freed.
func TestMissingCallback(t *testing.T) {
	soft, err := softgpu.Open(softgpu.Options{Devices: 2})
	if err != nil {
		t.Fatal(err)
	}
	d := fault.Wrap(soft, fault.Options{Nth: 1, Mode: fault.Never})
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, ok := prepare(g)
	other, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})
	if _, taken := take(&b.user, other, err); !ok || !taken {
		t.Fatal(b.err)
	}
	words := make([]float32, n)
	free, err := ferry.Alloc[float32](g, n)
	if _, taken := take(&b.user, free, err); !taken {
		t.Fatal(b.err)
	}
	if err := errors.Join(b.s.HostFunc(func() {}), ferry.Copy(b.s, b.on, b.host)); err != nil {
		t.Fatal(err)
	}
	for name, wait := range map[string]func(context.Context) error{
		"Stream.Wait":       b.s.Wait,
		"GPU.Wait":          g.Wait,
		"Host.SliceContext": func(ctx context.Context) error { _, err := b.host.SliceContext(ctx); return err },
		"CopyContext":       func(ctx context.Context) error { return ferry.CopyContext(ctx, b.s, ferry.Pageable(words), b.on) },
		"CopyTo":            func(ctx context.Context) error { _, err := ferry.CopyTo(ctx, b.s, io.Discard, b.on); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := guarded(t, d, name, func() error { return wait(ctx) }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the end of its context", name, err)
		}
		cancel()
	}
	if err := guarded(t, d, "another stream", func() error {
		return errors.Join(ferry.Fill(other, free, 7), other.Wait(t.Context()))
	}); err != nil {
		t.Errorf("another stream: %v", err)
	}
	d.Release()
	if err := guarded(t, d, "after the function has come", func() error { return errors.Join(b.s.Wait(t.Context()), b.done(nil), g.Close()) }); err != nil {
		t.Error(err)
	}
	if live := left(d); len(live) > 0 {
		t.Errorf("left %v", live)
	}
}

// stack returns the stacks of all goroutines.
func stack() string {
	b := make([]byte, 1<<16)
	return string(b[:runtime.Stack(b, true)])
}

// isRefusedFree reports whether the failed call was to free something.
func isRefusedFree(what string) bool {
	name, rest, _ := strings.Cut(what, ",")
	for _, part := range []string{"Free", "Destroy", "Unregister", "Unmap", "Unload", "Release", "EndCapture"} {
		if strings.Contains(name, part) {
			return strings.Contains(rest, "refused")
		}
	}
	return false
}

// mayBeIgnored reports whether a program can go on as well when a call fails, because
// there is another way. The scenario has checked its data.
func mayBeIgnored(scenario, what string) bool {
	name, _, _ := strings.Cut(what, ",")
	return ignored[name] || ignored[scenario+": "+name]
}

var ignored = map[string]bool{
	"parts: cuMemcpyBatchAsync": true,                             // the copies of a slot are made by single calls then
	"cuDeviceGetAttribute":      true, "cuDriverGetVersion": true, // then a capability counts as missing
	"cuModuleLoadDataEx": true, "cuModuleGetFunction": true, "cuFuncGetAttribute": true, // of the kernel for many small copies
	"cuDevicePrimaryCtxRetain": true, // "not supported": a context is created
	"cuMemHostRegister":        true, // of staging memory: the driver copies
	"cuEventCreate":            true, // as above
	"cuEventQuery":             true, // a wait follows
	"cuStreamQuery":            true, // as above
	"cuStreamSynchronize":      true, // the work is asked for again

	"cuThreadExchangeStreamCaptureMode": true, // a capture of another thread may then fail
	"cuDeviceGetPCIBusId":               true, // then page-locked memory is of any NUMA node

	"host function: cuEventDestroy": true, // of a channel: it goes with the context

	"wraps: cuEventRecord": true, "wraps: cuEventDestroy": true, // of marks, and of the end of a wrapped stream: its work is waited for
	"wraps: cuStreamGetCtx": true, "wraps: cuStreamIsCapturing": true, "wraps: cuStreamGetPriority": true, // "not supported": as by older drivers

	// Of marks that only waits on a GPU make: as above.
	"memory pool: cuEventDestroy": true, "default memory pool: cuEventDestroy": true, "stream-ordered: cuEventDestroy": true,
	"external work: cuEventDestroy": true, "external work: cuEventRecord": true, // a wait marks the end of a stream whose handle was taken

	"copy all: cuLaunchKernel": true,                                                                     // other calls make the copies
	"upload: cuEventRecord":    true, "upload: cuEventDestroy": true, "upload: cuEventSynchronize": true, // of a stream that is closed: the copy is done
	"memory pool: cuMemFreeAsync": true, "memory pool: cuEventRecord": true, // Close waits and frees
	"default memory pool: cuMemFreeAsync": true, "default memory pool: cuEventRecord": true, // as above

	"stream-ordered: cuEventRecord":  true, // Close of the stream waits
	"stream-ordered: cuMemFreeAsync": true, // Close waits and frees

	// Of the stream that converts, which is closed, and of staging memory, which is freed in stream
	// order: Close waits and frees.
	"checkpoint as F16: cuEventRecord": true, "checkpoint as F16: cuEventDestroy": true, "checkpoint as F16: cuEventSynchronize": true,
	"checkpoint as F32: cuEventRecord": true, "checkpoint as F32: cuEventDestroy": true, "checkpoint as F32: cuEventSynchronize": true,
	"checkpoint as F32: cuStreamWaitEvent": true, "checkpoint as F32: cuMemFreeAsync": true,
}
