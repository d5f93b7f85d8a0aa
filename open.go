package ferry

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/hint"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// DeviceVariable is the environment variable that Open("") reads.
const DeviceVariable = "FERRY_DEVICE"

// choice is what a device's name means.
type choice struct {
	auto    bool   // a GPU, else the software one
	soft    bool   // the software GPU, else CUDA
	profile string // of the software GPU, "" for the default
	count   int    // of the software GPU's devices
	ordinal int    // of the CUDA device, -1 when the name has none
}

// Open opens a device by name:
//
//	""            what FERRY_DEVICE names, else a GPU, else the software GPU
//	cuda, cuda:1  an NVIDIA GPU, the first or that of an ordinal
//	soft          the software GPU, playing an H200
//	soft:NAME     playing a machine that Ferry ships (package profile lists them)
//	soft:FILE     playing the machine of a profile, a file that ends in .json
//	soft:h200*2   the first of two
//
// A strict name never falls back: on a machine without a GPU, "cuda" is an error that
// says what was tried. When "" falls back to the software GPU, Open says so on standard
// error, once a process, and [GPU.Fallback] tells why; FERRY_QUIET=1 silences hints.
// Every Open of a software GPU makes a new machine; devices that shall see each
// other come from one [OpenAll].
func Open(name string) (*GPU, error) {
	all, err := open(name, false)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// OpenAll opens every device that a name means: two for "soft:h200*2", every GPU
// for "cuda". Names are those of [Open].
func OpenAll(name string) ([]*GPU, error) { return open(name, true) }

// OpenDriver opens a device of any driver, such as one that wraps another.
// Devices that shall see each other must come from one driver value.
func OpenDriver(d cu.Driver, ordinal int) (*GPU, error) {
	if d == nil {
		return nil, refusal.Invalid("open device %d: no driver given (nil)", ordinal)
	}
	if err := d.Init(0); err != nil {
		return nil, fmt.Errorf("open device %d: %w", ordinal, err)
	}
	count, err := d.DeviceGetCount()
	if err != nil {
		return nil, fmt.Errorf("open device %d: %w", ordinal, err)
	}
	if ordinal < 0 || ordinal >= int(count) {
		return nil, refusal.New(cu.ErrorInvalidDevice, "open device %d: the driver has %d, numbered from 0", ordinal, count)
	}
	label := "cuda:" + strconv.Itoa(ordinal)
	if e := cu.AsEmulated(d); e != nil {
		label = softLabel(e.Profile(), int(count), ordinal)
	}
	g, err := newGPU(d, ordinal, label)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", label, err)
	}
	return g, nil
}

// open opens the first or all of the devices that a name means.
func open(name string, all bool) ([]*GPU, error) {
	asked := name
	if name == "" {
		name = os.Getenv(DeviceVariable)
		asked = DeviceVariable + "=" + name
	}
	c, err := parseName(name)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", asked, err)
	}
	if c.soft {
		return openSoft(c, name, all)
	}
	gpus, err := openCUDA(c, all)
	if err == nil {
		return gpus, nil
	}
	if !c.auto {
		return nil, fmt.Errorf("open %q: %w; \"soft\" opens the software GPU, which needs none", name, err)
	}
	gpus, softErr := openSoft(choice{soft: true, count: 1}, "soft", all)
	if softErr != nil {
		return nil, errors.Join(err, softErr)
	}
	for _, g := range gpus {
		g.fallback = err
	}
	hint.Say(hint.Fallback, "no NVIDIA GPU was found, so %v stands in: times are predictions (FERRY_DEVICE=cuda says what was tried; FERRY_DEVICE=soft or %s=1 silences this)", gpus[0], hint.QuietVariable)
	return gpus, nil
}

// parseName reads a device's name.
func parseName(name string) (choice, error) {
	kind, rest, more := strings.Cut(name, ":")
	switch {
	case name == "":
		return choice{auto: true, ordinal: -1}, nil
	case name == "cuda":
		return choice{ordinal: -1}, nil
	case kind == "cuda":
		n, err := strconv.ParseUint(rest, 10, 16)
		if err != nil {
			return choice{}, refusal.Invalid("%q is no device number: use cuda:0, cuda:1, ...", rest)
		}
		return choice{ordinal: int(n)}, nil
	}
	kind, _, _ = strings.Cut(kind, "*")
	if kind != "soft" {
		return choice{}, refusal.Invalid("no such device: use cuda, cuda:1, soft, soft:%s, soft:FILE.json or soft:h200*2", strings.Join(profile.Names(), ", soft:"))
	}
	c := choice{soft: true, count: 1}
	text := strings.TrimPrefix(strings.TrimPrefix(name, "soft"), ":")
	base, times, many := strings.Cut(text, "*")
	if many {
		n, err := strconv.ParseUint(times, 10, 16)
		if err != nil || n == 0 {
			return choice{}, refusal.Invalid("%q is no number of devices: use soft:h200*2", times)
		}
		c.count = int(n)
	}
	if c.profile = base; base == "" && more {
		return choice{}, refusal.Invalid("no profile after \"soft:\": there are %s; or give the path of a .json file", strings.Join(profile.Names(), ", "))
	}
	return c, nil
}

// openSoft makes a software machine and opens its devices.
func openSoft(c choice, name string, all bool) ([]*GPU, error) {
	opts := softgpu.Options{Devices: c.count}
	var err error
	switch {
	case strings.HasSuffix(c.profile, ".json"):
		opts.Profile, err = profile.Load(c.profile)
	case c.profile != "":
		opts.Profile, err = profile.Named(c.profile)
	}
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	d, err := softgpu.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	return openSome(d, 0, c.count, all)
}

// softLabel is how a device of a software machine is called.
func softLabel(profile string, count, ordinal int) string {
	if count == 1 {
		return "soft:" + profile
	}
	return fmt.Sprintf("soft:%s*%d device %d", profile, count, ordinal)
}

// cudaDriver is the driver library once it has started: all its devices share
// one driver value. A failure is not kept, so that a later Open looks again.
var cudaDriver atomic.Pointer[libcuda.Driver]

// openLibrary opens and starts the driver library.
func openLibrary() (*libcuda.Driver, error) {
	if d := cudaDriver.Load(); d != nil {
		return d, nil
	}
	d, err := libcuda.Open()
	if err != nil {
		return nil, err
	}
	if err := d.Init(0); err != nil {
		return nil, err
	}
	cudaDriver.CompareAndSwap(nil, d)
	return cudaDriver.Load(), nil
}

// openCUDA opens NVIDIA GPUs.
func openCUDA(c choice, all bool) ([]*GPU, error) {
	d, err := openLibrary()
	if err != nil {
		return nil, err
	}
	count, err := d.DeviceGetCount()
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, fmt.Errorf("the driver has no device: %w", cu.ErrorNoDevice)
	}
	if c.ordinal >= 0 {
		return openSome(d, c.ordinal, c.ordinal+1, true)
	}
	return openSome(d, 0, int(count), all)
}

// openSome opens the devices from first up to end, or the first of them.
func openSome(d cu.Driver, first, end int, all bool) ([]*GPU, error) {
	if !all {
		end = first + 1
	}
	var gpus []*GPU
	for i := first; i < end; i++ {
		g, err := OpenDriver(d, i)
		if err != nil {
			for _, g := range gpus {
				err = errors.Join(err, g.Close())
			}
			return nil, err
		}
		gpus = append(gpus, g)
	}
	return gpus, nil
}
