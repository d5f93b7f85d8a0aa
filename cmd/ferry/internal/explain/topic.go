package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// topic is something to explain.
type topic struct {
	name  string
	about string
	run   func(*lab) error
}

// topics are in the order of the help.
var topics = []topic{
	{"zero-copy", "A kernel reads and writes page-locked host memory itself. Each access crosses the link and is not kept " +
		"in device memory, so data that is read again crosses again. Nothing is copied, and no copy has to be waited for.", zeroCopy},
	{"copy", "A copy engine of the GPU moves page-locked memory over the link (DMA). Neither CPU nor kernels take part. " +
		"The call returns before the data moves.", dmaCopy},
	{"pageable", "The GPU cannot keep ordinary memory in its place while it reads. So the driver copies it through a " +
		"page-locked staging buffer: the data moves twice, a thread of the CPU moves it once, and the call waits.", pageableCopy},
	{"managed", "Managed memory has one address on both sides, and its pages move to where they are accessed. An access to a " +
		"page that is elsewhere faults, the driver moves pages, and the access is repeated. A prefetch moves them without faults.", managedMemory},
	{"uva", "Unified virtual addressing: host and devices share one address space. The driver sees from an address which " +
		"memory it is, so a copy needs no direction, and a kernel uses a host address if the memory is mapped.", unifiedAddresses},
	{"bar", "The CPU reaches device memory through a window of physical addresses, a base address register (BAR) of the PCI " +
		"device. CUDA maps device memory into no program: the driver uses the window itself, and GPUDirect gives it to other " +
		"devices. Writes are posted and can be combined. Each read waits for the whole way there and back.", throughBAR},
}

// Topics returns the names of all topics.
func Topics() (all []string) {
	for _, t := range topics {
		all = append(all, t.name)
	}
	return all
}

// Topic explains a topic with a small run on g. For a name that is no topic it returns an
// error.
func Topic(ctx context.Context, g *ferry.GPU, name string) (*Report, error) {
	i := slices.IndexFunc(topics, func(t topic) bool { return t.name == name })
	if i < 0 {
		return nil, fmt.Errorf("explain %q: no such topic", name)
	}
	t := &topics[i]
	r := newReport(t.name, g.String())
	r.About, r.Predicted = t.about, g.Emulated()
	var shadow []Step
	if !g.Emulated() {
		var err error
		if shadow, err = predict(ctx, g.Name(), t); err != nil {
			r.Notes = append(r.Notes, "no predictions: "+err.Error())
		}
	}
	if err := t.on(ctx, g, r, shadow); err != nil {
		return nil, fmt.Errorf("explain %s: %w", name, err)
	}
	if r.Predicted && len(r.Steps) > 0 {
		r.Notes = append(r.Notes, "physical addresses are those of the software GPU's page tables; costs are predictions of its profile and timeline")
	}
	return r, nil
}

// on runs a topic on a device.
func (t *topic) on(ctx context.Context, g *ferry.GPU, r *Report, shadow []Step) (err error) {
	l, err := newLab(ctx, g, r)
	if err != nil {
		return err
	}
	l.shadow = shadow
	defer func() { err = errors.Join(err, l.close()) }()
	return t.run(l)
}

// predict returns the steps of a topic on a software GPU with the profile of a device.
func predict(ctx context.Context, device string, t *topic) ([]Step, error) {
	p := profile.ForDevice(device)
	if p == nil {
		return nil, fmt.Errorf("there is no profile of %s", device)
	}
	d, err := softgpu.Open(softgpu.Options{Profile: p, Schedule: softgpu.Eager})
	if err != nil {
		return nil, err
	}
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		return nil, err
	}
	r := newReport(t.name, g.String())
	err = t.on(ctx, g, r, nil)
	return r.Steps, errors.Join(err, g.Close())
}
