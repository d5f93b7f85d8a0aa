package grid

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestSkips measures the smallest and the largest case of kinds on each machine. What a
// machine lacks is skipped, and nothing fails. A grid of 65536 blocks is too long for the
// oldest ones. Two machines and one of the oldest are drawn.
func TestSkips(t *testing.T) {
	age := func(name string) string {
		if name == "fermi-c2050" || name == "tesla-c1060" {
			return "old"
		}
		return "new"
	}
	for _, name := range sample.OfEach(t, profile.Names(), age, (len(profile.Names())-1)/2) {
		r, err := Measure(t.Context(), open(t, "soft:"+name), &Options{Only: func(c Case) bool {
			return c.Kind == manyBlocks && c.Size >= 32768 || c.Size == 4*kib
		}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		old := age(name) == "old"
		i := slices.IndexFunc(r.Skipped, func(s Skip) bool { return s.Kind == manyBlocks })
		switch {
		case old != (i >= 0):
			t.Errorf("%s: skipped %+v", name, r.Skipped)
		case old && (!slices.Equal(r.Skipped[i].Sizes, []int{65536, 131072, 262144}) || !strings.Contains(r.Skipped[i].Why, "at most 65535 blocks") || r.Skipped[i].Failed):
			t.Errorf("%s: skipped %+v", name, r.Skipped[i])
		}
		if !slices.ContainsFunc(r.Points, func(p Point) bool { return p.Case == Case{manyBlocks, 32768} }) {
			t.Errorf("%s: 32768 blocks were not measured", name)
		}
		if text := r.Page().Text(0); strings.Contains(text, "\nskipped\n") != (len(r.Skipped) > 0) {
			t.Errorf("%s: got\n%s", name, text)
		}
	}
}

// faulty is a driver that refuses fills. After a number of them the device is lost.
type faulty struct {
	cu.Driver
	result cu.Result
	left   int // fills until the device is lost; negative for never
	lost   bool
}

func (d *faulty) Unwrap() cu.Driver { return d.Driver }

func (d *faulty) MemsetD8Async(ctx cu.Context, p cu.DevicePtr, v byte, n uintptr, s cu.Stream) error {
	if d.left == 0 {
		d.lost = true
		return cu.ErrorIllegalAddress
	}
	d.left--
	return d.result
}

func (d *faulty) MemAlloc(ctx cu.Context, n uintptr) (cu.DevicePtr, error) {
	if d.lost {
		return 0, cu.ErrorIllegalAddress
	}
	return d.Driver.MemAlloc(ctx, n)
}

// measureFaulty measures fills and copies within a small size on a faulty driver.
func measureFaulty(t *testing.T, d *faulty) (*Result, error) {
	t.Helper()
	soft, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d.Driver = soft
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	return Measure(t.Context(), g, &Options{Only: func(c Case) bool {
		return c.Size <= 8*kib && (c.Kind == "fill" || c.Kind == "copy pinned in" || c.Kind == "kernel fills")
	}})
}

// TestFailures: a case that fails does not end the run, a lost device does. The results so
// far are kept in both.
func TestFailures(t *testing.T) {
	for what, c := range map[string]struct {
		driver          faulty
		points, skipped int
		failed          bool // the skipped cases are failures
		err             error
	}{
		"not supported": {faulty{result: cu.ErrorNotSupported, left: -1}, 4, 1, false, nil},
		"no memory":     {faulty{result: cu.ErrorOutOfMemory, left: -1}, 4, 1, false, nil},
		"refused":       {faulty{result: cu.ErrorInvalidValue, left: -1}, 4, 1, true, cu.ErrorInvalidValue},
		"lost":          {faulty{left: 0}, 2, 0, false, cu.ErrorIllegalAddress},
	} {
		r, err := measureFaulty(t, &c.driver)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: error %v, want %v", what, err, c.err)
		}
		if len(r.Points) != c.points || len(r.Skipped) != c.skipped {
			t.Errorf("%s: %d points, skipped %+v", what, len(r.Points), r.Skipped)
		}
		if c.skipped > 0 && (r.Skipped[0].Failed != c.failed || r.Skipped[0].Kind != "fill" || len(r.Skipped[0].Sizes) != 2) {
			t.Errorf("%s: skipped %+v", what, r.Skipped)
		}
	}
}

// TestQuick: a quick measurement has three sizes of each kind that has as many.
func TestQuick(t *testing.T) {
	n := 0
	for _, k := range Operations.About() {
		n += len(k.Quick)
		if len(k.Quick) < min(3, len(k.Sizes)) {
			t.Errorf("%s: %v of %v", k.Kind, k.Quick, k.Sizes)
		}
	}
	if n < 200 || n > 330 {
		t.Errorf("%d cases", n)
	}
}

// TestLimit: a limit that is too short leaves out cases, first those that are not quick. At
// least one case is measured.
func TestLimit(t *testing.T) {
	only := func(c Case) bool { return c.Kind == "fill" && c.Size <= 64*kib }
	r, err := Measure(t.Context(), open(t, "soft"), &Options{Only: only, Limit: 1})
	if err != nil || len(r.Points) != 1 || len(r.LeftOut) != 4 || r.Points[0].Size != 4*kib {
		t.Fatalf("got %+v, %+v, %v", r.Points, r.LeftOut, err)
	}
	if text := r.Page().Text(0); !strings.Contains(text, "left out, because the time was over: 4 cases of\n  fill\n") {
		t.Errorf("got\n%s", text)
	}
	var order []int
	r, err = Measure(t.Context(), open(t, "soft"), &Options{Only: only, Limit: time.Hour, Progress: func(_, _ int, c Case) { order = append(order, c.Size/kib) }})
	if err != nil || len(r.Points) != 5 || len(r.LeftOut) != 0 || !slices.Equal(order, []int{4, 32, 8, 16, 64}) {
		t.Errorf("got %d points, left out %v, order %v, %v", len(r.Points), r.LeftOut, order, err)
	}
}

// TestLimitOfKinds: with a limit, each kind has its first size before another has its second.
func TestLimitOfKinds(t *testing.T) {
	var order []string
	only := func(c Case) bool {
		return (c.Kind == "fill" || c.Kind == "kernel fills") && c.Quick() && c.Size <= 32*kib
	}
	o := &Options{Quick: true, Only: only, Limit: time.Hour, Progress: func(_, _ int, c Case) { order = append(order, c.String()) }}
	r, err := Measure(t.Context(), open(t, "soft"), o)
	if want := []string{"fill/4096", "kernel fills/4096", "fill/32768", "kernel fills/32768"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("got %q, want %q, %v", order, want, err)
	}
	if len(r.Points) != 4 || r.Points[1].Case != (Case{"fill", 32 * kib}) {
		t.Errorf("the results are in another order: %+v", r.Points)
	}
}

// TestMachine: the figures of an H200 are those of its datasheet: 4.8 TB/s, and 63 GB/s for
// PCI Express 5.0 with 16 lanes. Those of the device and of its profile are the same.
func TestMachine(t *testing.T) {
	m := machineOf(open(t, "soft:h200"))
	if m.Multiprocessors != 132 || m.Memory < 4.8e12 || m.Memory > 4.83e12 || m.Link < 63e9 || m.Link > 63.1e9 {
		t.Errorf("got %+v", m)
	}
	for _, name := range profile.Names() {
		p, err := profile.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := machineOf(open(t, "soft:"+name)), MachineOf(p); *got != *want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	for generation, want := range map[int]float64{0: 0, 1: 4e9, 2: 8e9, 3: 16e9 * 128 / 130, 4: 32e9 * 128 / 130, 6: 128e9 * 242 / 256, 9: 0} {
		if got := linkRate(generation, 16); math.Abs(got-want) > 1 {
			t.Errorf("generation %d: %v bytes a second, want %v", generation, got, want)
		}
	}
}
