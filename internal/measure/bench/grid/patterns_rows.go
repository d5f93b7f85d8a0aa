package grid

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// rowKinds are copies of rectangles and boxes. The size is that of a row. A rectangle has
// 1 MiB, but at most 16384 rows. "Pitched" memory has a gap as long as a row after each row.
var rowKinds = slices.Concat(
	rectangles("rows out, pitched on the host", rect{hostPitch: 2}, 16, 64, 256, 1*kib, 4*kib, 16*kib, 64*kib),
	rectangles("rows in, pitched on the host", rect{in: true, hostPitch: 2}, 16, 64, 256, 1*kib, 4*kib, 16*kib, 64*kib),
	rectangles("rows in, pitched on the device", rect{in: true, hostPitch: 1, devicePitch: 2}, 16, 256, 4*kib, 64*kib),
	rectangles("rows in, pitched on both sides", rect{in: true, hostPitch: 2, devicePitch: 2}, 16, 256, 4*kib),
	rectangles("rows out of layers, pitched on the host", rect{hostPitch: 2, layers: 16}, 16, 256, 4*kib),
	rectangles("rows in layers, pitched on the host", rect{in: true, hostPitch: 2, layers: 16}, 16, 256, 4*kib),
	[]kind{
		{"rows on the device, pitched", "bytes a row", []int{16, 256, 4 * kib, 64 * kib}, rowsOnDevice},
		{"copy within a buffer on the device", "bytes", []int{64 * kib, 1 * mib, 16 * mib}, copyWithin},
		{"fill of mapped memory", "bytes", []int{64 * kib, 1 * mib, 16 * mib}, fillMapped},
	},
)

// rect describes a copy of rows. A pitch is in rows, 0 is like 1.
type rect struct {
	in                     bool
	hostPitch, devicePitch int
	layers                 int // 0 for a rectangle
}

func rectangles(name string, x rect, sizes ...int) []kind {
	return []kind{{name, "bytes a row", sizes, func(r *rig, n int) (trial, error) { return r.rows(n, x) }}}
}

// rowCount returns the number of rows of n bytes.
func rowCount(n int) int { return min(1*mib/n, 16384) }

func (r *rig) rows(n int, x rect) (trial, error) {
	count := rowCount(n)
	host, err := r.pinned(count*n*max(1, x.hostPitch), 0)
	if err != nil {
		return trial{}, err
	}
	dev, err := r.device(count * n * max(1, x.devicePitch))
	if err != nil {
		return trial{}, err
	}
	hostPitch, devicePitch := uintptr(n*max(1, x.hostPitch)), uintptr(n*max(1, x.devicePitch))
	if x.layers > 0 {
		return r.layers(n, count, x, host, dev, hostPitch, devicePitch), nil
	}
	p := &cu.Memcpy2D{
		SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: dev, SrcPitch: devicePitch,
		DstMemoryType: cu.MemoryTypeHost, DstHost: host, DstPitch: hostPitch,
		WidthInBytes: uintptr(n), Height: uintptr(count),
	}
	if x.in {
		p.SrcMemoryType, p.SrcHost, p.SrcDevice, p.SrcPitch = cu.MemoryTypeHost, host, 0, hostPitch
		p.DstMemoryType, p.DstHost, p.DstDevice, p.DstPitch = cu.MemoryTypeDevice, nil, dev, devicePitch
	}
	return trial{events: true, step: func() error { return r.d.Memcpy2DAsync(r.ctx, p, r.stream) }}, nil
}

// layers copies the rows as a box of x.layers layers.
func (r *rig) layers(n, count int, x rect, host cu.HostPtr, dev cu.DevicePtr, hostPitch, devicePitch uintptr) trial {
	height := uintptr(count / x.layers)
	p := &cu.Memcpy3D{
		SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: dev, SrcPitch: devicePitch, SrcHeight: height,
		DstMemoryType: cu.MemoryTypeHost, DstHost: host, DstPitch: hostPitch, DstHeight: height,
		WidthInBytes: uintptr(n), Height: height, Depth: uintptr(x.layers),
	}
	if x.in {
		p.SrcMemoryType, p.SrcHost, p.SrcDevice, p.SrcPitch = cu.MemoryTypeHost, host, 0, hostPitch
		p.DstMemoryType, p.DstHost, p.DstDevice, p.DstPitch = cu.MemoryTypeDevice, nil, dev, devicePitch
	}
	return trial{events: true, step: func() error { return r.d.Memcpy3DAsync(r.ctx, p, r.stream) }}
}

func rowsOnDevice(r *rig, n int) (trial, error) {
	count := rowCount(n)
	from, to, err := r.devices(2 * n * count)
	p := &cu.Memcpy2D{
		SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: from, SrcPitch: uintptr(2 * n),
		DstMemoryType: cu.MemoryTypeDevice, DstDevice: to, DstPitch: uintptr(n),
		WidthInBytes: uintptr(n), Height: uintptr(count),
	}
	return trial{events: true, step: func() error { return r.d.Memcpy2DAsync(r.ctx, p, r.stream) }}, err
}

// copyWithin copies the first n bytes of a buffer behind them.
func copyWithin(r *rig, n int) (trial, error) {
	p, err := r.device(2 * n)
	return trial{events: true, step: func() error {
		return r.d.MemcpyDtoDAsync(r.ctx, p+cu.DevicePtr(n), p, uintptr(n), r.stream)
	}}, err
}

// fillMapped fills page-locked memory by its device address.
func fillMapped(r *rig, n int) (trial, error) {
	in, err := r.input(ones(n), zeroCopy)
	return trial{events: true, step: func() error { return r.d.MemsetD8Async(r.ctx, in.at, 7, uintptr(n), r.stream) }}, err
}
