package grid

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// copyKinds are copies and fills. A step is one call and the wait for its end.
var copyKinds = []kind{
	{"copy pinned in", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return r.copyPinned(n, 0, true, false) }},
	{"copy pinned in, just written", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return r.copyPinned(n, 0, true, true) }},
	{"copy pinned out", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return r.copyPinned(n, 0, false, false) }},
	{"copy pinned out to what was just written", "bytes", powers(4*kib, 64*mib), func(r *rig, n int) (trial, error) { return r.copyPinned(n, 0, false, true) }},
	{"copy write-combined in", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) {
		return r.copyPinned(n, cu.MemHostAllocWriteCombined, true, false)
	}},
	{"copy registered in", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return r.copyRegistered(n, true) }},
	{"copy registered out", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return r.copyRegistered(n, false) }},
	{"copy pageable in, cuMemcpy", "bytes", powers(4*kib, 256*mib), copyPageableIn},
	{"copy pageable in, ferry.Copy", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return r.copyByFerry(n, true) }},
	{"copy pageable out, cuMemcpy", "bytes", powers(4*kib, 256*mib), copyPageableOut},
	{"copy pageable out, ferry.Copy", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return r.copyByFerry(n, false) }},
	{"copy both ways", "bytes", powers(4*kib, 256*mib), copyBothWays},
	{"copy in, 32 in a row", "bytes", powers(4*kib, 4*mib), copyInARow},
	{"copy on device", "bytes", powers(4*kib, 256*mib), copyOnDevice},
	{"copy host to host", "bytes", powers(4*kib, 64*mib), copyHostToHost},
	{"fill", "bytes", powers(4*kib, 256*mib), fillDevice},
}

// copyOf returns the trial of a copy between p and device memory.
func (r *rig) copyOf(p cu.HostPtr, n int, in bool) (trial, error) {
	dev, err := r.device(n)
	if err != nil {
		return trial{}, err
	}
	return trial{step: func() error {
		if in {
			err = r.d.MemcpyHtoDAsync(r.ctx, dev, p, uintptr(n), r.stream)
		} else {
			err = r.d.MemcpyDtoHAsync(r.ctx, p, dev, uintptr(n), r.stream)
		}
		if err != nil {
			return err
		}
		return r.sync()
	}}, nil
}

func (r *rig) copyPinned(n int, flags cu.MemHostAllocFlags, in, written bool) (trial, error) {
	p, err := r.pinned(n, flags)
	if err != nil {
		return trial{}, err
	}
	t, err := r.copyOf(p, n, in)
	if written {
		t.prepare = func() error { return r.write(bytesOf(p, n)) }
	}
	return t, err
}

func (r *rig) copyRegistered(n int, in bool) (trial, error) {
	p, err := r.registered(n)
	if err != nil {
		return trial{}, err
	}
	return r.copyOf(p, n, in)
}

// olderNames are the names of kinds in files of older versions.
var olderNames = map[string]string{
	"copy pageable in, cuMemcpy":  "copy pageable in",
	"copy pageable out, cuMemcpy": "copy pageable out",
}

// copyPageableIn copies by the driver. It waits before each sample until the previous sample is on the device,
// because the call returns earlier.
func copyPageableIn(r *rig, n int) (trial, error) {
	b := r.pageable(n)
	dev, err := r.device(n)
	return trial{
		prepare: func() error {
			if err := r.d.StreamSynchronize(r.ctx, cu.StreamLegacy); err != nil {
				return err
			}
			return r.write(b)
		},
		step: func() error { return r.d.MemcpyHtoD(r.ctx, dev, pointer(b), uintptr(n)) },
	}, err
}

func copyPageableOut(r *rig, n int) (trial, error) {
	b := r.pageable(n)
	dev, err := r.device(n)
	return trial{step: func() error { return r.d.MemcpyDtoH(r.ctx, pointer(b), dev, uintptr(n)) }}, err
}

// copyByFerry copies as programs with package ferry do: through the staging ring of the GPU. Copy returns when
// the program may use the slice again, as cuMemcpy does, and a sample waits for the one before.
func (r *rig) copyByFerry(n int, in bool) (trial, error) {
	b := r.pageable(n)
	s, err := ferry.NewStream(r.g, nil)
	if err != nil {
		return trial{}, err
	}
	r.onRelease(s.Close)
	device, err := ferry.Alloc[byte](r.g, n)
	if err != nil {
		return trial{}, err
	}
	r.onRelease(device.Close)
	host := ferry.Pageable(b)
	t := trial{step: func() error { return ferry.Copy(s, host, device) }}
	if in {
		t.step = func() error { return ferry.Copy(s, device, host) }
		t.prepare = func() error { return errors.Join(s.Wait(context.Background()), r.write(b)) }
	}
	return t, ferry.Fill(s, device, 1)
}

func copyBothWays(r *rig, n int) (trial, error) {
	in, err := r.pinned(n, 0)
	if err != nil {
		return trial{}, err
	}
	out, err := r.pinned(n, 0)
	if err != nil {
		return trial{}, err
	}
	a, b, err := r.devices(n)
	return trial{step: func() error {
		if err := r.d.MemcpyHtoDAsync(r.ctx, a, in, uintptr(n), r.stream); err != nil {
			return err
		}
		if err := r.d.MemcpyDtoHAsync(r.ctx, out, b, uintptr(n), r.second); err != nil {
			return err
		}
		if err := r.sync(); err != nil {
			return err
		}
		return r.d.StreamSynchronize(r.ctx, r.second)
	}}, err
}

func copyInARow(r *rig, n int) (trial, error) {
	p, err := r.pinned(n, 0)
	if err != nil {
		return trial{}, err
	}
	dev, err := r.device(n)
	return trial{step: func() error {
		for range 32 {
			if err := r.d.MemcpyHtoDAsync(r.ctx, dev, p, uintptr(n), r.stream); err != nil {
				return err
			}
		}
		return r.sync()
	}}, err
}

func copyOnDevice(r *rig, n int) (trial, error) {
	a, b, err := r.devices(n)
	return trial{step: func() error {
		if err := r.d.MemcpyDtoDAsync(r.ctx, a, b, uintptr(n), r.stream); err != nil {
			return err
		}
		return r.sync()
	}}, err
}

// copyHostToHost copies between page-locked buffers with the driver.
func copyHostToHost(r *rig, n int) (trial, error) {
	a, err := r.pinned(n, 0)
	if err != nil {
		return trial{}, err
	}
	b, err := r.pinned(n, 0)
	return trial{step: func() error {
		return r.d.Memcpy(r.ctx, cu.DevicePtr(addressOf(bytesOf(a, n))), cu.DevicePtr(addressOf(bytesOf(b, n))), uintptr(n))
	}}, err
}

func fillDevice(r *rig, n int) (trial, error) {
	a, err := r.device(n)
	return trial{step: func() error {
		if err := r.d.MemsetD8Async(r.ctx, a, 7, uintptr(n), r.stream); err != nil {
			return err
		}
		return r.sync()
	}}, err
}
