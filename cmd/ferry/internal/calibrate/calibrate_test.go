package calibrate

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

func named(t *testing.T, name string) *profile.Profile {
	t.Helper()
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// machine opens a software GPU with a profile that was changed.
func machine(t *testing.T, name string, change func(p *profile.Profile)) *ferry.GPU {
	t.Helper()
	p := named(t, name)
	change(p)
	d, err := softgpu.Open(softgpu.Options{Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// little reports whether the software GPU runs a case in little time. Arithmetic and many
// blocks take nearly all of the time of a calibration, so the tests have few of them.
func little(c grid.Case) bool {
	switch c.Kind {
	case "kernel computes":
		return c.Size == 16 || c.Size == 32 || c.Size == 128
	case "kernel computes in one block", "kernel of many blocks":
		return c.Size <= 2048
	}
	return small(c) && c.Size <= 128<<10
}

func measure(t *testing.T, g *ferry.GPU) *grid.Result {
	t.Helper()
	r, err := grid.Measure(t.Context(), g, &grid.Options{Only: little})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func base(t *testing.T, g *ferry.GPU) *Base {
	t.Helper()
	b, err := BaseOf(g)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// scale multiplies the times of a curve.
func scale(c *profile.Curve, by float64) {
	for i := range c.Points {
		c.Points[i].Ns *= by
	}
}

// changeH200 makes another machine of an H200.
func changeH200(p *profile.Profile) {
	scale(&p.Copy.PinnedHtoD, 2)
	scale(&p.Copy.PageableDtoH, 0.5)
	scale(&p.Own.HostAlloc, 3)
	scale(&p.Managed.PrefetchHtoD, 1.5)
	p.Calls.Record.Value *= 2
	p.Calls.Launch.Value *= 1.5
	p.Kernel.Instructions.Value /= 2
	p.Kernel.Atomic.Value *= 3
	p.Link.Payload.Value /= 2
}

// TestRecovers makes a profile of a machine that differs from its base. It must predict that
// machine, also the cases that it was not calibrated to.
func TestRecovers(t *testing.T) {
	g := machine(t, "h200", changeH200)
	r := measure(t, g)
	text, q, err := Make(t.Context(), "mine", base(t, g), r)
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for i := range r.Points {
		if p := &r.Points[i]; !p.Fits() {
			held++
			p.Median *= 7
		}
	}
	if q.Base != "h200" || q.Before < 0.05 || q.After > 0.03 || q.After > q.Before/3 || q.Cases != held {
		t.Errorf("got %+v, want %d cases", q, held)
	}
	if again, _, err := Make(t.Context(), "mine", base(t, g), r); err != nil || !bytes.Equal(again, text) {
		t.Errorf("the times of the other half change the profile; error %v", err)
	}
	t.Logf("%+v", q)
	p, err := profile.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := named(t, "h200")
	changeH200(want)
	for what, c := range map[string][2]float64{
		"copy.pinned_htod":       {p.Copy.PinnedHtoD.Ns(128 << 10), want.Copy.PinnedHtoD.Ns(128 << 10)},
		"copy.pageable_dtoh":     {p.Copy.PageableDtoH.Ns(128 << 10), want.Copy.PageableDtoH.Ns(128 << 10)},
		"own.host_alloc":         {p.Own.HostAlloc.Ns(128 << 10), want.Own.HostAlloc.Ns(128 << 10)},
		"managed.prefetch_htod":  {p.Managed.PrefetchHtoD.Ns(128 << 10), want.Managed.PrefetchHtoD.Ns(128 << 10)},
		"calls.event_record_ns":  {p.Calls.Record.Value, want.Calls.Record.Value},
		"calls.launch_ns":        {p.Calls.Launch.Value, want.Calls.Launch.Value},
		"warp_instructions":      {p.Kernel.Instructions.Value, want.Kernel.Instructions.Value},
		"kernel.atomic_ns":       {p.Kernel.Atomic.Value, want.Kernel.Atomic.Value},
		"copy.dtod, not changed": {p.Copy.DtoD.Ns(128 << 10), want.Copy.DtoD.Ns(128 << 10)},
	} {
		if math.Abs(c[0]/c[1]-1) > 0.15 {
			t.Errorf("%s is %.4g, want %.4g", what, c[0], c[1])
		}
	}
	if p.Name != "mine" || p.Title != "NVIDIA H200" || p.Sources[p.Copy.PinnedHtoD.Source].Confidence != profile.Derived {
		t.Errorf("got %q, %q, source %q", p.Name, p.Title, p.Copy.PinnedHtoD.Source)
	}
	if !strings.HasPrefix(string(text), "{\n  \"schema\": \"ferry.profile/2\",\n") {
		t.Errorf("the document begins with %.80s", text)
	}
	file := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := ferry.Open("soft:" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if name := again.Name(); name != "NVIDIA H200" {
		t.Errorf("the file opens %q", name)
	}
}

// TestEveryMachine makes a profile of each shipped machine from its own times: it predicts
// them. The machines are drawn.
func TestEveryMachine(t *testing.T) {
	for _, name := range sample.Of(t, profile.Names(), 2) {
		g := machine(t, name, func(*profile.Profile) {})
		b := base(t, g)
		if b.Name != name {
			t.Errorf("%s: the base is %s", name, b.Name)
		}
		r, err := grid.Measure(t.Context(), g, &grid.Options{Only: func(c grid.Case) bool { return little(c) && (c.Size == 4096 || c.Size == 64<<10) }})
		if err != nil {
			t.Fatal(err)
		}
		text, q, err := Make(t.Context(), "mine", b, r)
		if err != nil || q.Before > 1e-3 || q.After > 5e-3 {
			t.Errorf("%s: %+v, %v", name, q, err)
			continue
		}
		if _, err := profile.Parse(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMeasuredMachine makes a profile from a recorded run on an H200, on the base of its own
// profile and on that of an A100. Both predict the other half of the run better than before.
func TestMeasuredMachine(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/results/grid-h200-f1.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := grid.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var points []grid.Point
	for _, p := range r.Points {
		if little(p.Case) {
			points = append(points, p)
		}
	}
	r.Points = points
	for _, want := range sample.Of(t, []struct {
		name          string
		before, after float64
	}{{"h200", 0.10, 0.10}, {"a100", 1, 0.20}}, 1) {
		name := want.name
		b := base(t, machine(t, name, func(*profile.Profile) {}))
		_, q, err := Make(t.Context(), "mine", b, r)
		if err != nil || q.Before > want.before || q.After > want.after {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
		t.Logf("%s: %+v", name, q)
	}
}

// TestBaseOfHardware: an unknown device begins from the profile with the nearest compute
// capability, and has its own attributes.
func TestBaseOfHardware(t *testing.T) {
	g := machine(t, "a100", func(p *profile.Profile) {
		p.Title, p.Name = "NVIDIA A99", "a99"
		n := p.Attributes["MULTIPROCESSOR_COUNT"]
		n.Value = 99
		p.Attributes["MULTIPROCESSOR_COUNT"] = n
	})
	b := base(t, g)
	count := b.doc.object("attributes.MULTIPROCESSOR_COUNT")
	if b.Name != "a100" || count["value"] != 99.0 || count["source"] != deviceSource {
		t.Errorf("got %s, %v", b.Name, count)
	}
	r, err := grid.Measure(t.Context(), g, &grid.Options{Only: func(c grid.Case) bool { return c.Size == 4096 }})
	if err != nil {
		t.Fatal(err)
	}
	text, q, err := Make(t.Context(), "a99", b, r)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(text)
	if err != nil || p.Title != "NVIDIA A99" {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestMoved(t *testing.T) {
	old := profile.Line(100, 1e9, "x")
	got := moved(old, []move{{1000, 1100, 2200}, {1000, 1100, 2200}, {100000, 100100, 400400}})
	for bytes, want := range map[float64]float64{1000: 2200, 100000: 400400, 1e9: 4 * (100 + 1e9)} {
		if ns := got.Ns(bytes); math.Abs(ns/want-1) > 1e-6 {
			t.Errorf("%v bytes: %v ns, want %v", bytes, ns, want)
		}
	}
	for x, want := range map[float64]float64{-1: 1, 0: 1, 1: 1.5, 3: 2.5, 4: 3, 9: 3} {
		if y := interpolate([]float64{0, 4}, []float64{1, 3}, x); y != want {
			t.Errorf("at %v: %v, want %v", x, y, want)
		}
	}
	falls := moved(old, []move{{1000, 1100, 22000}, {2000, 2100, 210}})
	for i := range falls.Points[1:] {
		if falls.Points[i+1].Ns < falls.Points[i].Ns {
			t.Errorf("the curve falls: %v", falls.Points)
		}
	}
}

func TestNothingMeasured(t *testing.T) {
	g := machine(t, "h200", func(*profile.Profile) {})
	if _, _, err := Make(t.Context(), "mine", base(t, g), &grid.Result{}); err == nil {
		t.Error("a result without times was accepted")
	}
}
