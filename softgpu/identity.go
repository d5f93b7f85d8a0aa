package softgpu

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	refusals "github.com/ferrygpu/ferry/internal/refusal"
)

// places returns the place of each device in the machine.
func (o *Options) places() (places []int, err error) {
	if o.Places == nil {
		for i := range o.Devices {
			places = append(places, i)
		}
		return places, nil
	}
	for _, place := range o.Places {
		if place < 0 || place >= maxDevices || slices.Contains(places, place) {
			break
		}
		places = append(places, place)
	}
	if len(places) != o.Devices || len(places) != len(o.Places) {
		return nil, refusals.Invalid("places %v of %d devices, must be different ones of 0 to %d", o.Places, o.Devices, maxDevices-1)
	}
	return places, nil
}

// DeviceGetUuid returns 16 bytes of a hash of the profile's name and the place of the device. They
// are the same in every process.
func (d *Driver) DeviceGetUuid(dev cu.Device) ([16]byte, error) {
	if err := d.since("cuDeviceGetUuid", 11040); err != nil {
		return [16]byte{}, err
	}
	return deviceCall(d, dev, "get the device's UUID", func(dev *device) ([16]byte, error) {
		return dev.uuid(), nil
	})
}

func (dev *device) uuid() [16]byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", dev.drv.prof.Name, dev.place))
	return [16]byte(sum[:16])
}

// StreamGetId returns the id of the stream. Ids count up and are never used again. While
// the stream captures it fails and invalidates the capture.
func (d *Driver) StreamGetId(h cu.Context, stream cu.Stream) (uint64, error) {
	if err := d.since("cuStreamGetId", 12000); err != nil {
		return 0, err
	}
	return outsideCapture(d, h, stream, func(s *streamState) uint64 {
		if s.id == 0 {
			d.lastSID++
			s.id = d.lastSID
		}
		return s.id
	})
}

// outsideCapture reads a property of a stream that does not capture. While the stream
// captures it fails and invalidates the capture.
func outsideCapture[T any](d *Driver, h cu.Context, stream cu.Stream, f func(*streamState) T) (T, error) {
	var capturing error
	v, err := streamCall(d, h, stream, func(s *streamState) (v T) {
		if s.capture != nil {
			capturing = s.mustNotCapture("read a property of a stream")
			return v
		}
		return f(s)
	})
	return v, cmp.Or(err, capturing)
}
