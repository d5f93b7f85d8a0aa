package storm

import (
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/public"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// timeVariable is how long TestStorm blows. Without it, it has a leg of each kind.
const timeVariable = "FERRY_STORM"

// TestStorm: legs of the storm, one after the other. A failure prints the seed of its leg.
func TestStorm(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	random := sample.Rand(t)
	var until time.Time
	if text := os.Getenv(timeVariable); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s=%q: %v", timeVariable, text, err)
		}
		until = time.Now().Add(d)
	}
	var sum Count
	for leg := 0; leg < len(kinds) || time.Now().Before(until); leg++ {
		k, seed := kinds[leg%len(kinds)], random.Uint64()
		if !until.IsZero() {
			seed += uint64(time.Now().UnixNano())
		}
		before := runtime.NumGoroutine()
		o := Options{Goroutines: 64, Rounds: 6, Seed: seed}
		k.set(&o)
		if racebuild.On {
			o.Rounds = 3
		}
		began := time.Now()
		count, err := Run(open(t, leg%2 == 1), o)
		t.Logf("leg %d, %s, seed %d: %+v in %v", leg, k.name, seed, count, time.Since(began).Round(time.Millisecond))
		sum.Rounds, sum.Failed, sum.Verified, sum.Panics = sum.Rounds+count.Rounds, sum.Failed+count.Failed, sum.Verified+count.Verified, sum.Panics+count.Panics
		if err != nil {
			t.Fatalf("leg %d, %s, seed %d: %v", leg, k.name, seed, err)
		}
		if o.Lost || racebuild.On { // the software GPU keeps goroutines: for work that is lost, and for the race detector
			continue
		}
		for tries := 0; runtime.NumGoroutine() > before+2 && tries < 10_000; tries++ {
			time.Sleep(time.Millisecond)
		}
		if n := runtime.NumGoroutine(); n > before+2 {
			stacks := make([]byte, 1<<20)
			t.Fatalf("leg %d, %s, seed %d: %d goroutines, %d before\n%s", leg, k.name, seed, n, before, stacks[:runtime.Stack(stacks, true)])
		}
	}
	t.Logf("%+v", sum)
	if sum.Verified < sum.Rounds/10 || sum.Panics == 0 || sum.Failed == 0 {
		t.Errorf("%+v: too little was right, or nothing failed", sum)
	}
}

// kinds are the kinds of legs.
var kinds = []struct {
	name string
	set  func(o *Options)
}{
	{"no driver call fails", func(o *Options) {}},
	{"driver calls fail", func(o *Options) { o.Faults = fault.Options{More: failures(o.Seed, fault.Refused)} }},
	{"driver calls are done and fail", func(o *Options) { o.Faults = fault.Options{More: failures(o.Seed, fault.Done)} }},
	{"driver calls are late", func(o *Options) {
		o.Faults = fault.Options{More: failures(o.Seed, fault.Late), Delay: 20 * time.Millisecond}
	}},
	{"memory is short", func(o *Options) { o.Faults = fault.Options{MemoryLimit: 16 << 20} }},
	{"any call fails", func(o *Options) { o.Faults, o.Lost = fault.Options{Every: 200, Seed: o.Seed}, true }},
	{"the context is lost", func(o *Options) {
		o.Faults, o.Lost = fault.Options{Nth: 500 + o.Seed%5000, Mode: fault.Sticky, Code: cu.ErrorLaunchFailed}, true
	}},
}

// failing are driver calls that fail in a leg that must leave nothing: not those that free.
var failing = []string{"cuMemAlloc", "cuMemAllocAsync", "cuMemHostAlloc", "cuMemHostRegister", "cuMemAllocManaged", "cuStreamCreateWithPriority", "cuEventCreate",
	"cuEventRecord", "cuStreamWaitEvent", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemsetD8Async", "cuLaunchKernel", "cuGraphLaunch",
	"cuGraphInstantiate", "cuStreamBeginCapture", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchHostFunc", "cuStreamSynchronize", "cuStreamQuery",
	"cuEventQuery", "cuEventSynchronize", "cuMemPoolCreate", "cuCtxSynchronize", "cuMemGetInfo"}

// failures lets each of these calls fail once.
func failures(seed uint64, mode fault.Mode) (all []fault.Failure) {
	for i, call := range failing {
		all = append(all, fault.Failure{Call: call, Nth: 3 + (seed>>(i%32))%60, Mode: mode, Code: cu.ErrorOutOfMemory})
	}
	return all
}

// open opens a software GPU with two devices and a small staging ring, which may pass for hardware.
func open(t *testing.T, polled bool) cu.Driver {
	t.Helper()
	p, err := profile.Named("h200")
	if err != nil {
		t.Fatal(err)
	}
	p.Staging.Chunk.Value, p.Staging.DirectHtoD.Value = 64<<10, 8<<10
	d, err := softgpu.Open(softgpu.Options{Devices: 2, Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	if polled {
		return &gputest.Holding{Driver: d}
	}
	return d
}

// without has, by the reason, what the storm does not call.
var without = map[string][]string{
	"belongs to an error":      {"Error", "Unwrap"},
	"is of the whole process":  {"Log", "OnLeak"},
	"opens drivers of its own": {"GPUs", "Open", "OpenAll"},
}

// TestEveryOperation: no public operation is missing in the storm.
func TestEveryOperation(t *testing.T) {
	f := public.New(t)
	all, called := f.Operations(t, "", "pipeline"), f.Called(t, ".", "keep")
	for name := range f.Called(t, "../sweep", "take") {
		called[name] = true
	}
	var excuses [][]string
	for _, names := range without {
		excuses = append(excuses, names)
	}
	missing, wrong := public.Missing(all, called, excuses...)
	slices.Sort(missing)
	for _, name := range missing {
		t.Errorf("the storm does not call %s: let an act do so, or give a reason in without", name)
	}
	for _, name := range wrong {
		t.Errorf("without has %s, which the storm calls, or which is no public operation", name)
	}
	if len(all) < 100 {
		t.Errorf("found only %d operations", len(all))
	}
}
