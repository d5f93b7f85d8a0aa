package sweep

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/unordered"
	"github.com/ferrygpu/ferry/softgpu"
)

var (
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the sample with -short")
)

// part is how many failures there are for one in a sample.
const part = 6

// hung is how long a run may take.
const hung = 30 * time.Second

// failures are the ways in which a call fails.
var failures = []struct {
	mode fault.Mode
	code cu.Result
}{
	{fault.Refused, cu.ErrorInvalidValue}, {fault.Refused, cu.ErrorOutOfMemory}, {fault.Refused, cu.ErrorNotSupported},
	{fault.Done, cu.ErrorOutOfMemory}, {fault.Sticky, cu.ErrorLaunchFailed}, {fault.Sticky, cu.ErrorECCUncorrectable}, {fault.Late, 0},
}

// TestSweep runs each scenario once for each driver call that it makes and each way to
// fail. Each run ends in time, without a panic, with the error, or with right data; it
// leaves nothing allocated and no goroutine. With -short it tries a sample.
func TestSweep(t *testing.T) {
	random := rand.New(rand.NewPCG(*seed, 0))
	runs := 0
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			soft, err := softgpu.Open(softgpu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			plain := fault.Wrap(soft, fault.Options{})
			if err := run(s, plain); err != nil {
				t.Fatalf("without a failure: %v", err)
			}
			if live := plain.Live(); len(live) > 0 {
				t.Errorf(s.Name+" without a failure: left %v", live)
			}
			for nth := uint64(1); nth <= plain.Calls(); nth++ {
				for _, f := range failures {
					if testing.Short() && random.IntN(part) != 0 {
						continue
					}
					runs++
					try(t, s, soft, fault.Options{Nth: nth, Mode: f.mode, Code: f.code, Delay: time.Millisecond})
				}
			}
		})
	}
	t.Logf("%d runs; -seed %d", runs, *seed)
}

// run opens a device of a driver, runs a scenario and closes the device.
func run(s Scenario, d cu.Driver) error {
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		return err
	}
	return errors.Join(s.Run(context.Background(), g), g.Close())
}

// try runs a scenario with one failure and checks what is left.
func try(t *testing.T, s Scenario, soft cu.Driver, o fault.Options) {
	t.Helper()
	before := runtime.NumGoroutine()
	d := fault.Wrap(soft, o)
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				ended <- fmt.Errorf("PANIC: %v\n%s", v, stack())
			}
		}()
		ended <- run(s, d)
	}()
	var err error
	select {
	case err = <-ended:
	case <-time.After(hung):
		t.Fatalf("%s: hung after %s\n%s", s.Name, d.Failed(), stack())
	}
	what := d.Failed()
	switch {
	case err != nil && (strings.HasPrefix(err.Error(), "PANIC") || strings.Contains(err.Error(), "wrong data")):
		t.Errorf("%s: %v", what, err)
	case what == "" || o.Mode == fault.Late:
		if err != nil {
			t.Errorf("%q: error %v", what, err)
		}
	case err == nil && !mayBeIgnored(s.Name, what):
		t.Errorf("%s: no error", what)
	case err != nil && !errors.Is(err, o.Code) && !strings.HasPrefix(what, "cuDeviceGetAttribute"): // a capability is missing
		t.Errorf("%s: error %v, want the code in it", what, err)
	}
	if live := d.Live(); len(live) > 0 && !isRefusedFree(what) {
		t.Errorf("%s: left %v; error %v", what, live, err)
	}
	if unordered.Enabled { // a race build of the software GPU keeps goroutines
		return
	}
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if time.Sleep(time.Millisecond); i == 2000 {
			t.Fatalf("%s: %d goroutines, before %d\n%s", what, runtime.NumGoroutine(), before, stack())
		}
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
	for _, part := range []string{"Free", "Destroy", "Unregister", "Unload", "Release", "EndCapture"} {
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
	"cuDeviceGetAttribute": true, "cuDriverGetVersion": true, // then a capability counts as missing
	"cuModuleLoadDataEx": true, "cuModuleGetFunction": true, "cuFuncGetAttribute": true, // of the kernel for many small copies
	"cuDevicePrimaryCtxRetain": true, // "not supported": a context is created
	"cuMemHostRegister":        true, // of staging memory: the driver copies
	"cuEventCreate":            true, // as above
	"cuEventQuery":             true, // a wait follows
	"cuStreamSynchronize":      true, // the work is asked for again

	"copy all: cuLaunchKernel":       true, // other calls make the copies
	"stream-ordered: cuEventRecord":  true, // Close of the stream waits
	"stream-ordered: cuMemFreeAsync": true, // Close waits and frees
}
