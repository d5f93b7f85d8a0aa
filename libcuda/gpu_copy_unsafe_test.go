package libcuda_test

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// TestGPUCopies moves fresh bytes with every call for one-dimensional copies.
func TestGPUCopies(t *testing.T) {
	g := newGPU(t)
	const n = 1<<20 + 13
	a, b, s := g.alloc(n), g.alloc(n), g.stream()
	in, inPtr := g.pinned(n, 0)
	out, outPtr := g.pinned(n, 0)
	for _, c := range []struct {
		name string
		copy func() error // in to a to b to out
	}{
		{"HtoD DtoD DtoH", func() error {
			g.must(g.MemcpyHtoD(g.ctx, a, inPtr, n))
			g.must(g.MemcpyDtoD(g.ctx, b, a, n))
			return g.MemcpyDtoH(g.ctx, outPtr, b, n)
		}},
		{"asynchronous", func() error {
			g.must(g.MemcpyHtoDAsync(g.ctx, a, inPtr, n, s))
			g.must(g.MemcpyDtoDAsync(g.ctx, b, a, n, s))
			g.must(g.MemcpyDtoHAsync(g.ctx, outPtr, b, n, s))
			return g.StreamSynchronize(g.ctx, s)
		}},
		{"any direction", func() error {
			g.must(g.Memcpy(g.ctx, a, devicePtr(inPtr), n))
			g.must(g.Memcpy(g.ctx, b, a, n))
			return g.Memcpy(g.ctx, devicePtr(outPtr), b, n)
		}},
		{"any direction, asynchronous", func() error {
			g.must(g.MemcpyAsync(g.ctx, a, devicePtr(inPtr), n, s))
			g.must(g.MemcpyAsync(g.ctx, b, a, n, s))
			g.must(g.MemcpyAsync(g.ctx, devicePtr(outPtr), b, n, s))
			return g.StreamSynchronize(g.ctx, s)
		}},
		{"peer to itself", func() error {
			g.must(g.MemcpyHtoD(g.ctx, a, inPtr, n))
			g.must(g.MemcpyPeer(g.ctx, b, g.ctx, a, g.ctx, n))
			g.must(g.CtxSynchronize(g.ctx))
			return g.MemcpyDtoH(g.ctx, outPtr, b, n)
		}},
		{"peer to itself, asynchronous", func() error {
			g.must(g.MemcpyHtoDAsync(g.ctx, a, inPtr, n, s))
			g.must(g.MemcpyPeerAsync(g.ctx, b, g.ctx, a, g.ctx, n, s))
			g.must(g.MemcpyDtoHAsync(g.ctx, outPtr, b, n, s))
			return g.StreamSynchronize(g.ctx, s)
		}},
	} {
		data := random(n)
		copy(in, data)
		for i := range out {
			out[i] = ^data[i]
		}
		g.must(g.MemsetD8(g.ctx, a, 0x3c, n))
		g.must(g.MemsetD8(g.ctx, b, 0xc3, n))
		g.must(g.CtxSynchronize(g.ctx))
		g.must(c.copy())
		g.same(c.name, out, data)
	}
	g.must(g.MemcpyHtoD(g.ctx, a, inPtr, 0))
}

// TestGPUMemsets fills the inside of a buffer and also checks its edges.
func TestGPUMemsets(t *testing.T) {
	g := newGPU(t)
	const n, off, count = 4096, 64, 500
	p, s := g.alloc(n), g.stream()
	for _, c := range []struct {
		name  string
		value []byte
		fill  func(dst cu.DevicePtr) error
	}{
		{"D8", []byte{0x91}, func(dst cu.DevicePtr) error { return g.MemsetD8(g.ctx, dst, 0x91, count) }},
		{"D16", []byte{0x34, 0x92}, func(dst cu.DevicePtr) error { return g.MemsetD16(g.ctx, dst, 0x9234, count) }},
		{"D32", []byte{0x78, 0x56, 0x34, 0x93}, func(dst cu.DevicePtr) error { return g.MemsetD32(g.ctx, dst, 0x93345678, count) }},
		{"D8Async", []byte{0x94}, func(dst cu.DevicePtr) error { return g.MemsetD8Async(g.ctx, dst, 0x94, count, s) }},
		{"D16Async", []byte{0x35, 0x95}, func(dst cu.DevicePtr) error { return g.MemsetD16Async(g.ctx, dst, 0x9535, count, s) }},
		{"D32Async", []byte{0x79, 0x57, 0x35, 0x96}, func(dst cu.DevicePtr) error { return g.MemsetD32Async(g.ctx, dst, 0x96355779, count, s) }},
	} {
		want := random(n)
		g.upload(p, want)
		g.must(c.fill(p + off))
		g.must(g.StreamSynchronize(g.ctx, s))
		g.must(g.CtxSynchronize(g.ctx))
		copy(want[off:], bytes.Repeat(c.value, count))
		g.same(c.name, g.download(p, n), want)
	}
	g.want(g.MemsetD32(g.ctx, p+1, 0, 4), cu.ErrorInvalidValue)
}

// TestGPUCopy2D and TestGPUCopy3D copy a part from host to device to host, and compare
// with the same copy in Go.
func TestGPUCopy2D(t *testing.T) {
	g := newGPU(t)
	const width, height, hostPitch, x, y = 100, 9, 160, 12, 3
	dev, pitch, err := g.MemAllocPitch(g.ctx, width, height, 4)
	g.must(err)
	g.cleanup(func() error { return g.MemFree(g.ctx, dev) })
	s := g.stream()
	in, inPtr := g.pinned(hostPitch*(height+y), 0)
	out, outPtr := g.pinned(hostPitch*(height+y), 0)
	for _, async := range []bool{false, true} {
		copy(in, random(len(in)))
		copy(out, random(len(out)))
		want := bytes.Clone(out)
		for row := range height {
			copy(want[row*hostPitch+x:][:width], in[(row+y)*hostPitch+x:][:width])
		}
		up := &cu.Memcpy2D{
			SrcXInBytes: x, SrcY: y, SrcMemoryType: cu.MemoryTypeHost, SrcHost: inPtr, SrcPitch: hostPitch,
			DstMemoryType: cu.MemoryTypeDevice, DstDevice: dev, DstPitch: pitch, WidthInBytes: width, Height: height}
		down := &cu.Memcpy2D{
			SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: dev, SrcPitch: pitch,
			DstXInBytes: x, DstMemoryType: cu.MemoryTypeHost, DstHost: outPtr, DstPitch: hostPitch, WidthInBytes: width, Height: height}
		if async {
			g.must(g.Memcpy2DAsync(g.ctx, up, s))
			g.must(g.Memcpy2DAsync(g.ctx, down, s))
			g.must(g.StreamSynchronize(g.ctx, s))
		} else {
			g.must(g.Memcpy2D(g.ctx, up))
			g.must(g.Memcpy2D(g.ctx, down))
		}
		g.same("rectangle", out, want)
	}
	g.want(g.Memcpy2D(g.ctx, &cu.Memcpy2D{SrcMemoryType: cu.MemoryTypeHost, SrcHost: inPtr, SrcPitch: 10,
		DstMemoryType: cu.MemoryTypeDevice, DstDevice: dev, DstPitch: pitch, WidthInBytes: width, Height: height}), cu.ErrorInvalidValue)
}

func TestGPUCopy3D(t *testing.T) {
	g := newGPU(t)
	const width, height, depth, hostPitch, hostHeight, x, y, z = 40, 5, 4, 64, 8, 8, 2, 1
	const size = hostPitch * hostHeight * (depth + z)
	dev, s := g.alloc(width*height*depth), g.stream()
	in, inPtr := g.pinned(size, 0)
	out, outPtr := g.pinned(size, 0)
	for _, async := range []bool{false, true} {
		copy(in, random(size))
		copy(out, random(size))
		want := bytes.Clone(out)
		for layer := range depth {
			for row := range height {
				from := ((layer+z)*hostHeight+row+y)*hostPitch + x
				copy(want[(layer*hostHeight+row)*hostPitch:][:width], in[from:][:width])
			}
		}
		up := &cu.Memcpy3D{
			SrcXInBytes: x, SrcY: y, SrcZ: z, SrcMemoryType: cu.MemoryTypeHost, SrcHost: inPtr, SrcPitch: hostPitch, SrcHeight: hostHeight,
			DstMemoryType: cu.MemoryTypeDevice, DstDevice: dev, DstPitch: width, DstHeight: height,
			WidthInBytes: width, Height: height, Depth: depth}
		down := &cu.Memcpy3D{
			SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: dev, SrcPitch: width, SrcHeight: height,
			DstMemoryType: cu.MemoryTypeHost, DstHost: outPtr, DstPitch: hostPitch, DstHeight: hostHeight,
			WidthInBytes: width, Height: height, Depth: depth}
		if async {
			g.must(g.Memcpy3DAsync(g.ctx, up, s))
			g.must(g.Memcpy3DAsync(g.ctx, down, s))
			g.must(g.StreamSynchronize(g.ctx, s))
		} else {
			g.must(g.Memcpy3D(g.ctx, up))
			g.must(g.Memcpy3D(g.ctx, down))
		}
		g.same("box", out, want)
	}
}

// TestGPUStackVariables copies from and to variables that the compiler would keep on
// the stack if it could.
func TestGPUStackVariables(t *testing.T) {
	g := newGPU(t)
	p := g.alloc(8)
	for i := range uint64(100) {
		value, back := i*0x0123456789abcdef, uint64(0)
		g.must(g.MemcpyHtoD(g.ctx, p, cu.HostPtr(&value), unsafe.Sizeof(value)))
		g.must(g.MemcpyDtoH(g.ctx, cu.HostPtr(&back), p, unsafe.Sizeof(back)))
		if back != value {
			t.Fatalf("%#x, want %#x", back, value)
		}
	}
}

// TestGPUMemcpyKnowing: the driver knows page-locked memory and no ordinary memory, in both
// directions, and the bytes arrive.
func TestGPUMemcpyKnowing(t *testing.T) {
	g := newGPU(t)
	s, dev := g.stream(), g.alloc(4096)
	ordinary := make([]byte, 4096)
	locked, p := g.pinned(4096, 0)
	for _, m := range []struct {
		bytes []byte
		p     cu.HostPtr
		known bool
	}{{ordinary, unsafe.Pointer(&ordinary[0]), false}, {locked, p, true}} {
		for i := range m.bytes {
			m.bytes[i] = byte(i) + 1
		}
		for _, in := range []bool{true, false} {
			known, err := g.MemcpyKnowing(g.ctx, in, dev, m.p, 4096, s)
			g.must(err)
			g.must(g.StreamSynchronize(g.ctx, s))
			if known != m.known {
				t.Errorf("to the device: %v: known %v, want %v", in, known, m.known)
			}
			if in {
				clear(m.bytes)
			}
		}
		for i, b := range m.bytes {
			if b != byte(i)+1 {
				t.Fatalf("byte %d is %d, want %d", i, b, byte(i)+1)
			}
		}
	}
}
