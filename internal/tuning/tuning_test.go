package tuning

import (
	"runtime"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// machine is an emulated device, as far as tuning asks it.
type machine struct {
	cu.Emulated
	profile     *profile.Profile
	left, total uint64
}

func (m *machine) Machine() *profile.Profile        { return m.profile }
func (m *machine) HostMemory() (left, total uint64) { return m.left, m.total }
func (m *machine) Profile() string                  { return "mine" }

// bare is an emulated device without a profile and host memory.
type bare struct{ cu.Emulated }

func number(v float64) profile.Number { return profile.Number{Value: v, Source: "test"} }

// TestForProfile: each number of a profile reaches its setting, and what a profile lacks keeps the default.
func TestForProfile(t *testing.T) {
	p := new(profile.Profile)
	p.Tuning.Wait.Spin = number(1000)
	p.Tuning.Copy.SmallBytes, p.Tuning.Copy.KernelBlocks = number(2000), number(3)
	p.Tuning.Launch.Threads = number(64)
	p.Tuning.Pin.From = number(4096)
	p.Tuning.Pin.MaxTouchers = number(5)
	p.Tuning.Staging.SlotWait = number(6000)
	got, plain := For(&machine{profile: p}, ""), For(bare{}, "")
	want := plain
	want.Profile, want.Wait.Spin = p, time.Microsecond
	want.Copy.SmallBytes, want.Copy.KernelBlocks, want.Launch.Threads = 2000, 3, 64
	want.PinFrom, want.Pin.MaxTouchers, want.Ring.SlotWait = 4096, 5, 6*time.Microsecond
	if got.Ring != want.Ring || got.Pin != want.Pin || got.Copy != want.Copy || got.Launch != want.Launch || got.Wait != want.Wait || got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if plain.Profile != nil || plain.Pin != pin.DefaultSettings() || plain.Ring != staging.DefaultSettings() || plain.PinFrom != 64<<10 || plain.DirectIn != 64<<10 {
		t.Errorf("without a profile: %+v", plain)
	}
	p.Staging.Threads = number(7) // without the size of a chunk the profile has not measured staging
	if got := For(&machine{profile: p}, ""); got.Ring.Workers != plain.Ring.Workers {
		t.Errorf("%d workers, want %d", got.Ring.Workers, plain.Ring.Workers)
	}
	p.Staging.Chunk, p.Staging.DirectHtoD, p.Staging.DirectDtoH = number(1<<20), number(8000), number(9000)
	if got := For(&machine{profile: p}, ""); got.Ring.Workers != 7 || got.Ring.Chunk != 1<<20 || got.DirectIn != 8000 || got.DirectOut != 9000 {
		t.Errorf("got %+v, %d in, %d out", got.Ring, got.DirectIn, got.DirectOut)
	}
}

// TestForHardware: hardware has the profile that names it, and an unknown device the defaults.
func TestForHardware(t *testing.T) {
	for name, want := range map[string]string{"NVIDIA H200": "h200", "NVIDIA H100 80GB HBM3": "h200"} {
		if got := For(nil, name); got.Profile == nil || got.Profile.Name != want {
			t.Errorf("%s has the profile %+v, want %s", name, got.Profile, want)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(fewProcessors + 1))
	if got := For(nil, "NVIDIA Something"); got != For(bare{}, "") {
		t.Errorf("an unknown device has %+v", got)
	}
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := For(cu.AsEmulated(d), "NVIDIA Something"); got.Profile == nil || got.Profile.Name != "h200" {
		t.Errorf("the software H200 has %+v", got.Profile)
	}
}

// TestFewProcessors: with few processors the driver makes pageable copies of up to 1 MiB on hardware, and never fewer
// than with many. Times of an emulated machine do not depend on the processors of this one.
func TestFewProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(fewProcessors + 1))
	many := For(nil, "NVIDIA H200")
	emulated := For(bare{}, "")
	runtime.GOMAXPROCS(fewProcessors)
	few := For(nil, "NVIDIA H200")
	if few.DirectIn != fewDirect || few.DirectOut != fewDirect || many.DirectIn >= fewDirect || many.DirectOut >= fewDirect {
		t.Errorf("few: %d in, %d out; many: %d, %d", few.DirectIn, few.DirectOut, many.DirectIn, many.DirectOut)
	}
	if got := For(bare{}, ""); got.DirectIn != emulated.DirectIn || got.DirectOut != emulated.DirectOut {
		t.Errorf("emulated: %d in, %d out with few, %d and %d with many", got.DirectIn, got.DirectOut, emulated.DirectIn, emulated.DirectOut)
	}
}

// TestDirectly: the driver makes a copy up to its size, several only if they are few, small and go in.
func TestDirectly(t *testing.T) {
	s := &Settings{DirectIn: 100, DirectOut: 200, Copy: Copy{SmallBytes: 50, KernelCopies: 4}}
	for _, c := range []struct {
		in    bool
		count int
		bytes uintptr
		want  bool
	}{
		{true, 1, 100, true}, {true, 1, 101, false}, {false, 1, 200, true}, {false, 1, 201, false},
		{true, 3, 50, true}, {true, 3, 51, false}, {true, 4, 1, false}, {false, 2, 1, false},
	} {
		if got := s.Directly(c.in, c.count, c.bytes); got != c.want {
			t.Errorf("%+v: got %t", c, got)
		}
	}
	s.DirectIn = 10 // the smaller of both counts
	if s.Directly(true, 2, 11) || !s.Directly(true, 2, 10) {
		t.Error("several copies, each larger than one that the driver may make")
	}
}

// TestEmulatedHost: hardware has no emulated host, and neither has a device that does not say.
func TestEmulatedHost(t *testing.T) {
	if EmulatedHost(nil) != nil {
		t.Error("hardware has an emulated host")
	}
	if got := EmulatedHost(bare{})(); got != nil {
		t.Errorf("a device without host memory has %+v", got)
	}
	m := &machine{profile: new(profile.Profile), left: 5, total: 9}
	get := EmulatedHost(m)
	m.left = 4 // it is asked each time
	if got := get(); got == nil || *got != (pin.Emulated{Name: "mine", Left: 4, Total: 9}) {
		t.Errorf("got %+v", got)
	}
}
