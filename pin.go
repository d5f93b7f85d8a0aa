package ferry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
)

// PinError is why memory cannot be page-locked, found before it was tried: the
// control group's limit, too little free memory, a NUMA node that is not there.
type PinError struct {
	Bytes int    // asked for
	Node  int    // NUMA node, -1 for any
	Why   string // what is in the way
	Do    string // what to do about it
	Err   error  // cu.ErrorOutOfMemory or cu.ErrorInvalidValue
}

func (e *PinError) Error() string { return e.Err.Error() + ": " + e.Why + ": " + e.Do }

func (e *PinError) Unwrap() error { return e.Err }

// PinPrediction is what page-locking will take, told beforehand.
type PinPrediction struct {
	Time      time.Duration // about; 0 where it cannot succeed
	Node      int           // the NUMA node where the memory will be, -1 where that is not known
	HugePages bool          // memory on huge pages
	Err       error         // a *PinError if it cannot succeed, nil if nothing speaks against it
}

// PredictPin says what [AllocHost] of so many bytes will take, and whether it can
// succeed, from what the machine has free and allows now and from how long the last
// large allocation took. The first time it page-locks up to 256 MiB for trial, which takes
// some 30 ms; the error is that of the trial. o may be nil.
func (g *GPU) PredictPin(bytes int, o *HostOptions) (PinPrediction, error) {
	what := fmt.Sprintf("predict page-locking of %d bytes", bytes)
	if err := g.enter(what); err != nil {
		return PinPrediction{}, err
	}
	defer g.leave()
	if bytes < 0 {
		return PinPrediction{}, refuse("%s: it cannot be negative", what)
	}
	if o == nil {
		o = &HostOptions{}
	}
	p := PinPrediction{Node: pin.AnyNode}
	var err error
	if g.pinsItself(uintptr(bytes), o) {
		r := g.pinRequest(uintptr(bytes), o)
		var told pin.Prediction
		if told, err = g.engine.Predict(r); told.Error != nil {
			p.Err = publicPinError(told.Error)
		}
		p.Time, p.Node, p.HugePages = told.Time, r.Node, told.Huge
	} else if bytes > 0 {
		p.Time, err = g.timeHostAlloc(uintptr(bytes), o)
	}
	if err != nil {
		return PinPrediction{}, fmt.Errorf("%s on %s: %w", what, g.label, err)
	}
	return p, nil
}

// pinAlone is from which size on Ferry makes page-locked memory by itself. It is
// faster at any size, but a process can have some 65,000 mappings.
const pinAlone = 64 << 10

// pinsItself says whether Ferry makes such a buffer, and not the driver. Kernels
// must know it at the host's address.
func (g *GPU) pinsItself(bytes uintptr, o *HostOptions) bool {
	return g.engine != nil && !o.WriteCombined && (bytes >= pinAlone || o.NUMANode != nil && bytes > 0)
}

// newEngine makes the engine of a GPU, nil where registered memory is not as good
// as the driver's own.
func newEngine(g *GPU) *pin.Engine {
	if !g.caps.register || !g.hostPointers() {
		return nil
	}
	return pin.NewEngine(g.driver, g.ctx, g.Now, g.emulated != nil)
}

// pinRequest is the options in the engine's words.
func (g *GPU) pinRequest(bytes uintptr, o *HostOptions) pin.Request {
	r := pin.Request{Bytes: bytes, Flags: cu.MemHostRegisterPortable, Node: g.nodeOf()}
	if o.NotPortable {
		r.Flags = 0
	}
	if o.Mapped {
		r.Flags |= cu.MemHostRegisterDeviceMap
	}
	if o.NUMANode != nil {
		r.Node, r.Strict = *o.NUMANode, true
	}
	if o.Progress != nil {
		r.Progress = func(done, total uintptr) { o.Progress(int(done), int(total)) }
	}
	return r
}

// nodeOf is the NUMA node that the GPU is attached to.
func (g *GPU) nodeOf() int {
	if g.emulated != nil {
		return pin.AnyNode
	}
	id, err := g.driver.DeviceGetPCIBusId(g.device)
	if err != nil {
		return pin.AnyNode
	}
	return pin.NodeOfDevice(os.DirFS("/"), id)
}

// locked is page-locked memory: made by the engine, or else by the driver.
type locked struct {
	made *pin.Memory
	host cu.HostPtr
}

// pageLock is the way to page-locked memory that fits.
func (g *GPU) pageLock(ctx context.Context, bytes uintptr, o *HostOptions) (locked, error) {
	if err := ctx.Err(); err != nil {
		return locked{}, err
	}
	if g.pinsItself(bytes, o) {
		m, err := g.engine.Lock(ctx, g.pinRequest(bytes, o))
		if err == nil {
			return locked{m, m.Start()}, nil
		}
		if found, ok := errors.AsType[*pin.Error](err); ok {
			err = publicPinError(found)
		}
		if !unregistrable(err) {
			return locked{}, err
		}
	}
	if o.NUMANode != nil {
		return locked{}, &refusal{cu.ErrorNotSupported, "the driver's own page-locked memory cannot be placed: allocate without NUMANode and WriteCombined"}
	}
	p, err := g.driver.MemHostAlloc(g.ctx, bytes, o.flags())
	return locked{nil, p}, err
}

// cuts is where one registration borders on the next, in bytes from the start.
func (m locked) cuts() []uintptr {
	if m.made == nil {
		return nil
	}
	return m.made.Cuts()
}

// free gives the memory back.
func (m locked) free(g *GPU) error {
	if m.made != nil {
		return m.made.Close()
	}
	return g.driver.MemFreeHost(g.ctx, m.host)
}

func publicPinError(e *pin.Error) *PinError {
	return &PinError{Bytes: int(e.Bytes), Node: e.Node, Why: e.Why, Do: e.Do, Err: e.Result}
}

// unregistrable says that the device, against what its attributes tell, does not
// register memory.
func unregistrable(err error) bool {
	_, told := errors.AsType[*PinError](err)
	return !told && (errors.Is(err, cu.ErrorNotSupported) || errors.Is(err, cu.ErrorInvalidValue))
}

// timeHostAlloc tries how long the driver takes for memory of its own.
func (g *GPU) timeHostAlloc(bytes uintptr, o *HostOptions) (time.Duration, error) {
	sample := min(bytes, 64<<20)
	begin := g.Now()
	p, err := g.driver.MemHostAlloc(g.ctx, sample, o.flags())
	took := g.Now() - begin
	if err != nil {
		return 0, err
	}
	return time.Duration(float64(took) * (float64(bytes) / float64(sample))), g.driver.MemFreeHost(g.ctx, p)
}
