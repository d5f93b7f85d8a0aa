package cutest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// machine returns a profile with changed attributes.
func machine(t *testing.T, name string, changed map[string]float64) *profile.Profile {
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	q := *p
	q.Attributes = maps.Clone(p.Attributes)
	for a, v := range changed {
		if _, ok := q.Attributes[a]; !ok {
			t.Fatalf("profile %s has no attribute %s", name, a)
		}
		q.Attributes[a] = profile.Number{Value: v, Source: q.Attributes[a].Source}
	}
	return &q
}

func opener(options softgpu.Options) func(testing.TB) cu.Driver {
	return func(t testing.TB) cu.Driver {
		d, err := softgpu.Open(options)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// TestSoftgpu runs the suite on the software GPU: as two devices all cases, and under each
// schedule and as an older machine a sample.
func TestSoftgpu(t *testing.T) {
	for _, v := range []struct {
		name, profile string
		devices       int
		schedule      softgpu.Schedule
	}{
		{"eager", "h200", 1, softgpu.Eager},
		{"lazy", "h200", 1, softgpu.Lazy},
		{"random", "h200", 1, softgpu.Random},
		{"fermi", "fermi-c2050", 1, softgpu.Eager},
		{"two", "h200", 2, softgpu.Eager},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			options := softgpu.Options{Profile: machine(t, v.profile, nil), Devices: v.devices, Schedule: v.schedule, Seed: 1}
			if v.devices > 1 {
				Run(t, opener(options))
				return
			}
			runSample(t, options, 6, allChecks())
		})
	}
}

// TestSoftgpuMachines runs a sample of the suite as the other machines that Ferry ships: of
// all cases where a machine lacks or adds something. Else, and with -short, of the cases in
// which machines differ. A skipped case names the capability that is lacking.
func TestSoftgpuMachines(t *testing.T) {
	notUnderRace(t)
	for _, name := range profile.Names() {
		whole := !testing.Short()
		switch name {
		case "h200", "fermi-c2050": // run above
			continue
		case "a100", "h100-pcie", "rtx-4090":
			whole = false
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := softgpu.Options{Profile: machine(t, name, nil)}
			if whole {
				runSample(t, options, 8, allChecks())
				return
			}
			runSample(t, options, 8, some(t, "device/", "pinned/", "mapped/", "register/", "managed/", "fault/pageable", "launch/", "concurrency/kernels", "concurrency/both"))
		})
	}
}

// TestSoftgpuLacking runs a sample of the suite on machines that lack a capability and on
// older drivers. A case that needs what is lacking is skipped, and names it. It runs all cases
// on the machine of gputest.MachineVariable. On some, and with -short, only the cases in which
// machines differ are drawn.
func TestSoftgpuLacking(t *testing.T) {
	notUnderRace(t)
	for _, m := range gputest.Machines() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			options := softgpu.Options{Profile: m.Profile(t)}
			chosen, _ := gputest.Chosen(t)
			whole := m.Name == "no-uva" || m.Name == "cuda-11.3" || m.Name == "nothing"
			switch {
			case chosen.Name == m.Name:
				Run(t, opener(options))
			case whole && !testing.Short():
				runSample(t, options, 8, allChecks())
			default:
				runSample(t, options, 8, some(t, "device/", "pinned/", "mapped/", "register/", "managed/", "pool/", "memop/", "graph/", "launch/", "batch/", "function/"))
			}
		})
	}
}

// TestSoftgpuExclusive runs the cases of managed memory on a machine where host and
// device do not use it at the same time, as before Pascal and under Windows.
func TestSoftgpuExclusive(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy} {
		t.Run(fmt.Sprint(schedule), func(t *testing.T) {
			t.Parallel()
			p := machine(t, "h200", map[string]float64{"CONCURRENT_MANAGED_ACCESS": 0})
			runSample(t, softgpu.Options{Profile: p, Schedule: schedule}, 1, some(t, "managed/", "memset/managed", "copy/inferred", "pointer/managed"))
		})
	}
}

// TestSoftgpuEngines runs the cases of overlap with each number of copy engines, with a
// queue for each stream and with one queue for all.
func TestSoftgpuEngines(t *testing.T) {
	notUnderRace(t)
	for engines := range 4 {
		for _, name := range []string{"h200", "fermi-c2050"} {
			t.Run(fmt.Sprintf("%s/%d", name, engines), func(t *testing.T) {
				t.Parallel()
				p := machine(t, name, map[string]float64{"ASYNC_ENGINE_COUNT": float64(engines), "GPU_OVERLAP": min(float64(engines), 1)})
				runSample(t, softgpu.Options{Profile: p}, 1, some(t, "concurrency/copies", "concurrency/both", "concurrency/issue", "device/overlap", "async/page-locked-copies"))
			})
		}
	}
}

// notUnderRace skips tests of times and of broken drivers. The race detector makes
// kernels many times slower, and reports the errors of a broken driver as races.
func notUnderRace(t *testing.T) {
	if raceBuild {
		t.Skip("not a test for the race detector, and too slow with it")
	}
}

// some returns the cases whose ids begin with one of the prefixes. It fails the test if a
// prefix matches no case.
func some(t *testing.T, prefixes ...string) (chosen []check) {
	t.Helper()
	for _, prefix := range prefixes {
		before := len(chosen)
		for _, k := range allChecks() {
			if strings.HasPrefix(k.id, prefix) {
				chosen = append(chosen, k)
			}
		}
		if len(chosen) == before {
			t.Errorf("no case begins with %q", prefix)
		}
	}
	return chosen
}

// runSample runs one of part of the cases of each group, and all with [sample.Full]. It fails
// if every case is skipped.
func runSample(t *testing.T, options softgpu.Options, part int, checks []check) {
	t.Helper()
	runDrawn(t, opener(options), part, checks)
}

// runDrawn is runSample for any driver.
func runDrawn(t *testing.T, open func(testing.TB) cu.Driver, part int, checks []check) {
	t.Helper()
	if id, ok := childOf(); ok {
		runChecks(t, open, id, checks)
		return
	}
	s := run(t, open, sample.OfEach(t, checks, group, part))
	passed := 0
	for _, r := range s.results {
		if r.Result == "pass" {
			passed++
		}
	}
	if passed == 0 && !t.Failed() {
		t.Error("every case was skipped")
	}
}

// group returns the group of a case: what its id says before the slash.
func group(k check) string {
	name, _, _ := strings.Cut(k.id, "/")
	return name
}

// TestPageableArrivesLater requires what async/pageable-arrives-later only observes:
// under lazy the bytes of a copy from pageable memory have never arrived at its return.
func TestPageableArrivesLater(t *testing.T) {
	notUnderRace(t)
	const id = "async/pageable-arrives-later"
	for _, k := range allChecks() {
		if k.id != id {
			continue
		}
		s := run(t, opener(softgpu.Options{Schedule: softgpu.Lazy}), []check{k})
		if len(s.results) != 1 || s.results[0].Observed["stale"] != 20 {
			t.Errorf("got %+v, want 20 stale", s.results)
		}
	}
}
