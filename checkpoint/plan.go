package checkpoint

import (
	"fmt"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/profile"
)

// Plan is what a [Load] would do.
type Plan struct {
	Tensors     int
	ReadBytes   int64 // of the tensors in the files
	Reads       int   // ranges that are read without a break, with the gaps up to 68 KiB between tensors
	DeviceBytes int64 // of the buffer, with the gaps between tensors
	ExtraBytes  int64 // device memory that is in use during a load with conversions

	// On the GPU, if there is one.
	FreeBytes, TotalBytes uint64 // device memory now
	Fits                  bool   // FreeBytes are enough for the buffer and the extra

	// Predicted is how long the bytes take by the measurements of a profile: on the link, or the CPU to
	// fill the staging ring, whichever is slower. A disk can be slower still. Conversions and copies to
	// further GPUs are not counted. It is 0 without a profile for the GPU.
	Predicted time.Duration
	Profile   string // the name of the profile
}

// String returns a description in one line.
func (p *Plan) String() string {
	if p == nil {
		return "no plan (nil)"
	}
	text := fmt.Sprintf("%s: %s in %s to %s of device memory", amount(p.Tensors, "tensor"), refusal.Size(uintptr(p.ReadBytes)), amount(p.Reads, "read"), refusal.Size(uintptr(p.DeviceBytes)))
	if p.TotalBytes > 0 {
		fits := "fits"
		if !p.Fits {
			fits = "does not fit"
		}
		text += fmt.Sprintf(", which %s into %s of free memory", fits, refusal.Size(uintptr(p.FreeBytes)))
	}
	if p.Predicted > 0 {
		text += fmt.Sprintf("; %v for link and CPU (predicted by profile %s)", p.Predicted.Round(time.Millisecond/10), p.Profile)
	}
	return text
}

// Plan says what a [Load] with the same options would do. It reads no file: the headers say all. g
// may be nil: then the plan says nothing about a GPU. o may be nil. Errors are those of Load.
func (c *Checkpoint) Plan(g *ferry.GPU, o *Options) (*Plan, error) {
	p, err := c.plan(g, o)
	if err != nil {
		return nil, fmt.Errorf("plan load of checkpoint: %w", err)
	}
	return p, nil
}

func (c *Checkpoint) plan(g *ferry.GPU, o *Options) (*Plan, error) {
	if o == nil {
		o = &Options{}
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	l, err := c.place(o)
	if err != nil {
		return nil, err
	}
	p := &Plan{Tensors: len(l.slots), ReadBytes: l.read, Reads: l.readCount(), DeviceBytes: l.bytes, ExtraBytes: l.extra()}
	if g == nil {
		return p, nil
	}
	free, total, err := g.MemInfo()
	if err != nil {
		return nil, err
	}
	p.FreeBytes, p.TotalBytes = uint64(free), uint64(total)
	p.Fits = uint64(p.DeviceBytes+p.ExtraBytes) <= p.FreeBytes
	p.predict(g)
	return p, nil
}

// predict predicts the time by the profile of the GPU.
func (p *Plan) predict(g *ferry.GPU) {
	machine := profile.ForDevice(g.Name())
	if g.Emulated() {
		machine, _ = profile.Named(g.Profile()) // a profile of the user has no name here
	}
	if machine == nil {
		return
	}
	ns := machine.Copy.PinnedHtoD.Ns(float64(p.ReadBytes))
	if most := machine.Staging.FillMost.Value; most > 0 {
		ns = max(ns, float64(p.ReadBytes)/most*1e9)
	}
	p.Predicted, p.Profile = time.Duration(ns), machine.Name
}

// readCount returns how many ranges of files CopyParts reads without a break, in all its calls.
func (l *layout) readCount() (n int) {
	for _, batch := range l.batches(l.half()) {
		var read fileRanges
		for i := range batch {
			p := &batch[i]
			t := l.slots[p.slot].t
			read.add(t.file, t.Offset+p.off, p.bytes)
		}
		n += len(read)
	}
	return n
}

// extra returns the bytes of device memory that conversions take for a while.
func (l *layout) extra() int64 { return 2 * l.half() }
