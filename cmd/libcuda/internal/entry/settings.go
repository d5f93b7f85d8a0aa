package entry

import (
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// kernelSettings keeps what a program has set for a kernel on a device. It holds in each context of the
// device, also in those that are made later.
type kernelSettings struct {
	mu     sync.Mutex
	byWhat map[setting]apply
}

// setting names what is set, on which device.
type setting struct {
	dev  cu.Device
	what cu.FunctionAttribute
}

// cacheSetting stands for the preference of caches, which is no attribute.
const cacheSetting = cu.FunctionAttribute(1 << 20)

// apply sets a value for a function.
type apply func(ctx cu.Context, fn cu.Function) error

// of returns the settings of a device.
func (s *kernelSettings) of(dev cu.Device) (all []apply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x, set := range s.byWhat {
		if x.dev == dev {
			all = append(all, set)
		}
	}
	return all
}

// add keeps a setting.
func (s *kernelSettings) add(x setting, set apply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byWhat == nil {
		s.byWhat = map[setting]apply{}
	}
	s.byWhat[x] = set
}

// none reports whether nothing is set.
func (s *kernelSettings) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byWhat) == 0
}

// begin makes the settings of a kernel for its new function. What another thread sets meanwhile is made
// after publish, with which that thread finds the function.
func (s *kernelSettings) begin(d cu.Driver, ctx cu.Context, fn cu.Function, publish func()) error {
	if err := s.make(d, ctx, fn); err != nil {
		return err
	}
	publish()
	return s.make(d, ctx, fn)
}

func (s *kernelSettings) make(d cu.Driver, ctx cu.Context, fn cu.Function) error {
	if s.none() {
		return nil
	}
	dev, err := d.CtxGetDevice(ctx)
	if err != nil {
		return err
	}
	for _, set := range s.of(dev) {
		if err := set(ctx, fn); err != nil {
			return err
		}
	}
	return nil
}

// setKernel makes a setting of a kernel on a device, in all contexts that have its function.
func setKernel(d cu.Driver, f *Frame, handle uint64, dev cu.Device, what cu.FunctionAttribute, set apply) error {
	k, err := find[*kernel](handle)
	if err != nil {
		return err
	}
	return inContextOf(d, f, handle, dev, func(ctx cu.Context, fn cu.Function) error {
		if err := set(ctx, fn); err != nil {
			return err
		}
		k.settings.add(setting{dev, what}, set)
		return k.setElsewhere(d, ctx, dev, set)
	})
}

// setElsewhere makes a setting in the contexts of a device other than ctx.
func (k *kernel) setElsewhere(d cu.Driver, ctx cu.Context, dev cu.Device, set apply) (err error) {
	k.functions.Range(func(x, fn any) bool {
		other := x.(cu.Context)
		if of, gone := d.CtxGetDevice(other); other != ctx && gone == nil && of == dev {
			err = set(other, fn.(cu.Function))
		}
		return err == nil
	})
	return err
}
