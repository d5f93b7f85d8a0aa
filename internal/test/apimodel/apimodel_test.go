package apimodel

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/internal/unordered"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

var (
	programs = flag.Int("programs", sample.Count(15, 600), "programs for each schedule")
	length   = flag.Int("steps", 60, "steps of a program")
)

// TestSoftware runs random programs on all schedules and some machines of the software GPU.
// What a program leaves allocated is an error.
func TestSoftware(t *testing.T) {
	seed := sample.Seed(t)
	for _, schedule := range []string{"eager", "lazy", "random"} {
		t.Run(schedule, func(t *testing.T) {
			for i := range *programs {
				s := seed + uint64(i)
				open := func() (cu.Driver, error) { return software(schedule, s) }
				try(t, open, s)
			}
		})
	}
	t.Logf("%d programs for each schedule", *programs)
}

// machines are those that programs run on; most on the first. All have unified addressing:
// without it, host memory cannot be filled, and not copied to host memory in every way.
var machines = []string{"h200", "h200", "h200", "gh200", "a100", "rtx-4090", "orin", "jetson-tx2", "h100-pcie"}

// software opens a software GPU.
func software(schedule string, seed uint64) (cu.Driver, error) {
	if schedule == "random" {
		schedule = fmt.Sprintf("random:%d", seed%(1<<32))
	}
	s, err := softgpu.ParseSchedule(schedule)
	if err != nil {
		return nil, err
	}
	p, err := profile.Named(machines[seed%uint64(len(machines))])
	if err != nil {
		return nil, err
	}
	return softgpu.Open(softgpu.Options{Schedule: s, Profile: p})
}

// TestCareless runs programs whose streams do not wait for each other. Where work runs late
// or in random order, most have results that are not those of the model.
func TestCareless(t *testing.T) {
	if unordered.Enabled {
		t.Skip("a race build reports these races")
	}
	const all = 20
	seed := sample.Seed(t)
	for _, schedule := range []string{"lazy", "random"} {
		wrong := 0
		for i := range all {
			d, err := software(schedule, seed+uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			g, err := ferry.OpenDriver(d, 0)
			if err != nil {
				t.Fatal(err)
			}
			p := &program{random: rand.New(rand.NewPCG(seed+uint64(i), 21)), g: g, careless: true}
			if _, err := run(p, *length); err != nil {
				wrong++
			}
			_ = g.Close()
		}
		t.Logf("%s: %d of %d found", schedule, wrong, all)
		if wrong < all/4 && *length >= 60 {
			t.Errorf("%s: %d of %d careless programs found", schedule, wrong, all)
		}
	}
}

// TestHardware runs the same programs on the GPU of the machine.
func TestHardware(t *testing.T) {
	d := gputest.Driver(t)
	for i := range *programs {
		try(t, func() (cu.Driver, error) { return d, nil }, sample.Seed(t)+uint64(i))
	}
	t.Logf("%d programs", *programs)
}

// try runs a program. If it fails, try finds the fewest steps with which it does.
func try(t *testing.T, open func() (cu.Driver, error), seed uint64) {
	t.Helper()
	log, err := once(open, seed, *length)
	if err == nil {
		return
	}
	least := *length
	for low := 0; low < least; {
		middle := (low + least) / 2
		if short, failed := once(open, seed, middle); failed != nil {
			least, log, err = middle, short, failed
		} else {
			low = middle + 1
		}
	}
	t.Errorf("%v\n%s\nReplay it with %s=%d and -programs 1 -steps %d.", err, strings.Join(log[max(0, len(log)-60):], "\n"), sample.SeedVariable, seed, least)
}

// once runs a program and reports what it leaves.
func once(open func() (cu.Driver, error), seed uint64, steps int) (log []string, err error) {
	plain, err := open()
	if err != nil {
		return nil, err
	}
	d := fault.Wrap(plain, fault.Options{})
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	if log, err = Run(g, seed, steps); err != nil {
		return log, err
	}
	if err := g.Close(); err != nil {
		return log, err
	}
	if live := d.Live(); len(live) > 0 {
		return log, fmt.Errorf("left %v", live)
	}
	return log, nil
}
