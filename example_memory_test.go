package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"reflect"
	"sync"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// Page-locked memory is copied at the speed of the link, while the program goes on.
func Example_pinnedCopy() {
	gpu, _ := ferry.Open("") // FERRY_DEVICE, else a GPU, else the software one
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	const n = 1 << 20
	device, _ := ferry.Alloc[uint32](gpu, n)
	defer device.Close()
	out, _ := ferry.AllocHost[uint32](gpu, n, &ferry.HostOptions{WriteCombined: true}) // Go only writes it
	defer out.Close()
	in, _ := ferry.AllocHost[uint32](gpu, n, nil)
	defer in.Close()

	values := out.Slice()
	for i := range values {
		values[i] = uint32(i)
	}
	if err := errors.Join(ferry.Copy(s, device, out), ferry.Copy(s, in, device)); err != nil {
		log.Fatal(err)
	}
	sum := uint64(0)
	for _, v := range in.Slice() { // Slice waits for the copies
		sum += uint64(v)
	}
	fmt.Println(sum == n*(n-1)/2)
	// Output:
	// true
}

// A zero-copy program as in CUDA: check whether the device can map memory, allocate mapped
// memory, and give its addresses to a kernel.
func Example_zeroCopy() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	if can, _ := gpu.Attribute(cu.DeviceAttributeCanMapHostMemory); can == 0 {
		fmt.Println("this device needs copies")
		return
	}
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	add, _ := module.Kernel("vector_add")

	const n = 1000
	mapped := &ferry.HostOptions{Mapped: true}
	a, _ := ferry.AllocHost[float32](gpu, n, mapped)
	defer a.Close()
	b, _ := ferry.AllocHost[float32](gpu, n, mapped)
	defer b.Close()
	c, _ := ferry.AllocHost[float32](gpu, n, mapped)
	defer c.Close()
	for i := range n {
		a.Slice()[i], b.Slice()[i] = float32(i), 2*float32(i)
	}
	// Launch takes the buffers themselves, too. With addresses it does not know which
	// buffers are in flight, so the program has to wait for the stream.
	if err := s.Launch(add, ferry.Cover(n, 256), a.Pointer(), b.Pointer(), c.Pointer(), uint64(n)); err != nil {
		log.Fatal(err)
	}
	if err := s.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Slice()[n-1])
	// Output:
	// 2997
}

// Flags returns how the driver page-locked the memory. Hardware does not return that
// memory is portable, which is Ferry's default.
func ExampleHost_Flags() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	for _, o := range []ferry.HostOptions{{Mapped: true}, {Mapped: true, WriteCombined: true}} {
		h, err := ferry.AllocHost[byte](gpu, 4096, &o)
		if err != nil {
			log.Fatal(err)
		}
		flags, err := h.Flags()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("mapped", flags&cu.MemHostAllocDeviceMap != 0, "write-combined", flags&cu.MemHostAllocWriteCombined != 0)
		h.Close()
	}
	// Output:
	// mapped true write-combined false
	// mapped true write-combined true
}

// Registrations may overlap. Each is usable until its own Close.
func ExampleRegister_overlapping() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	device, _ := ferry.Alloc[byte](gpu, 26)
	defer device.Close()

	letters := []byte("abcdefghijklmnopqrstuvwxyz")
	part, _ := ferry.Register(gpu, letters[5:15], nil)
	defer part.Close()
	whole, err := ferry.Register(gpu, letters, nil) // page-locks what part has not
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(ferry.Copy(s, device, whole), whole.Close()); err != nil {
		log.Fatal(err)
	}
	if err := ferry.Copy(s, part, device.Range(0, 10)); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", part.Slice())
	fmt.Printf("%s\n", letters)
	// Output:
	// abcdefghij
	// abcdeabcdefghijpqrstuvwxyz
}

// Under unified addressing the driver knows for every address where it is, and kernels take
// host addresses as they are.
func Example_unifiedAddressing() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	if unified, _ := gpu.Attribute(cu.DeviceAttributeUnifiedAddressing); unified == 0 {
		fmt.Println("the host and the device have separate addresses")
		return
	}
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")
	host, _ := ferry.AllocHost[float32](gpu, 100, nil)
	defer host.Close()
	device, _ := ferry.Alloc[float32](gpu, 100)
	defer device.Close()

	for _, p := range []cu.DevicePtr{host.Range(10, 100).Pointer(), device.Range(10, 100).Pointer()} {
		about, err := gpu.Driver().PointerGetAttributes(gpu.CUContext(), p)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("host", about.MemoryType == cu.MemoryTypeHost, "bytes", about.RangeSize, "offset", p-about.RangeStart)
	}
	fmt.Println("same address:", uintptr(host.Pointer()) == reflect.ValueOf(host.Slice()).Pointer())

	copy(host.Slice(), []float32{1, 2, 3})
	if err := errors.Join(
		s.Launch(increment, ferry.Cover(3, 32), host, uint64(3)),
		ferry.Copy(s, device, host), // the types say in which direction
		ferry.Copy(s, host.Range(50, 100), device.Range(0, 50)),
	); err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Slice()[50:53])
	// Output:
	// host true bytes 400 offset 40
	// host false bytes 400 offset 40
	// same address: true
	// [2 3 4]
}

// The host and kernels use managed memory by one address, here together with device memory.
func Example_managed() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	add, _ := module.Kernel("vector_add")
	const n = 1000
	v, err := ferry.AllocManaged[float32](gpu, n, nil)
	if errors.Is(err, cu.ErrorNotSupported) {
		fmt.Println("this device has no managed memory")
		return
	}
	defer v.Close()
	device, _ := ferry.Alloc[float32](gpu, n)
	defer device.Close()

	values := v.Slice()
	for i := range values {
		values[i] = float32(i)
	}
	if err := errors.Join(
		v.Advise(cu.MemAdviseSetPreferredLocation, gpu.CUDevice()),
		v.Prefetch(s, gpu.CUDevice()), // optional: pages also move when they are touched
		ferry.Fill(s, device, 0.5),
		s.Launch(add, ferry.Cover(n, 256), v, device, v, uint64(n)),
	); err != nil {
		log.Fatal(err)
	}
	advice, err := v.Advice()
	fmt.Println(advice.PreferredLocation == gpu.CUDevice(), err)
	fmt.Println(v.Slice()[n-1]) // Slice waits, and the page moves back
	// Output:
	// true <nil>
	// 999.5
}

// Variables of a module are buffers.
func ExampleGlobal() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	module, err := ferry.Load(gpu, []byte(`.version 6.3
.target sm_52
.address_size 64
.visible .global .align 4 .f32 weights[3] = {0f3F800000, 0f40000000, 0f40400000};
`), nil)

	if err != nil {
		log.Fatal(err)
	}
	defer module.Close()

	weights, err := ferry.Global[float32](module, "weights")
	if err != nil {
		log.Fatal(err)
	}
	if err := ferry.Fill(gpu.DefaultStream(), weights.Range(1, 2), 0.25); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ferry.Download(weights))
	_, err = ferry.Global[float64](module, "weights")
	fmt.Println(err)
	// Output:
	// [1 0.25 3] <nil>
	// find variable "weights": it has 12 bytes, which is not a multiple of the size of float64, 8 bytes each (CUDA_ERROR_INVALID_VALUE)
}

// The GPU fills any memory that has an address in kernels, also page-locked memory. Elements
// of 1, 2 and 4 bytes can have any value.
func ExampleFill() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	h, err := ferry.AllocHost[float32](gpu, 6, &ferry.HostOptions{Mapped: true})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	clear(h.Slice())

	if err := ferry.Fill(s, h.Range(1, 5), -math.E); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Slice())
	// Output:
	// [0 -2.7182817 -2.7182817 -2.7182817 -2.7182817 0]
}

// A rectangle of a picture is copied to rows that the GPU accesses fastest, and from there to
// another place of the picture.
func ExampleCopyRect() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	device, _, _ := ferry.AllocPitched[byte](gpu, 3, 2)
	defer device.Close()

	const width = 8
	picture := []byte("........" + ".abc...." + ".def...." + "........")
	at := func(x, y int) ferry.Rect[byte] { // 3 by 2 bytes of the picture
		return ferry.Rect[byte]{Memory: ferry.Pageable(picture[y*width+x:]), Width: 3, Height: 2, Pitch: width}
	}
	tile := device.Rect()
	if err := errors.Join(ferry.CopyRect(s, tile, at(1, 1)), ferry.CopyRect(s, at(5, 2), tile)); err != nil {
		log.Fatal(err)
	}
	for y := range 4 {
		fmt.Printf("%s\n", picture[y*width:(y+1)*width])
	}
	// Output:
	// ........
	// .abc....
	// .def.abc
	// .....def
}

// Two devices share a page-locked buffer and copy to each other. On a machine with one
// device, it is opened twice.
func Example_twoDevices() {
	all, err := ferry.OpenAll("")
	if err == nil && len(all) == 1 {
		second, openErr := ferry.OpenDriver(all[0].Driver(), 0)
		all, err = append(all, second), openErr
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, gpu := range all {
		defer gpu.Close()
	}
	one, two := all[0], all[1]
	host, _ := ferry.AllocHost[uint16](one, 1000, nil) // all GPUs can use it
	defer host.Close()
	onOne, _ := ferry.Alloc[uint16](one, 1000)
	defer onOne.Close()
	onTwo, _ := ferry.Alloc[uint16](two, 1000)
	defer onTwo.Close()
	s, _ := ferry.NewStream(one, nil)
	defer s.Close()
	t, _ := ferry.NewStream(two, nil)
	defer t.Close()

	values := host.Slice()
	for i := range values {
		values[i] = uint16(3 * i)
	}
	if err := errors.Join(ferry.Copy(s, onOne, host), s.Wait(context.Background())); err != nil {
		log.Fatal(err)
	}
	clear(values)
	if err := errors.Join(ferry.Copy(t, onTwo, onOne), ferry.Copy(t, host, onTwo)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Slice()[999])
	if can, _ := one.CanAccessPeer(two); can { // then kernels of one can use onTwo, too
		if err := one.EnablePeer(two); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 2997
}

// Buffers from a pool come and go without calls of the driver, also while they are in
// flight.
func ExampleNewPinnedPool() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	device, _ := ferry.Alloc[int32](gpu, 3)
	defer device.Close()
	pool, err := ferry.NewPinnedPool(gpu, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	var host ferry.Host[int32]
	for i := range 3 {
		if err := host.Alloc(pool, 1); err != nil {
			log.Fatal(err)
		}
		host.Slice()[0] = int32(10 * i)
		if err := errors.Join(ferry.Copy(s, device.Range(i, i+1), &host), host.Close()); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(ferry.Download(device))
	stats, err := pool.Stats()
	fmt.Println(stats.DriverCalls, "call of the driver", err)
	// Output:
	// [0 10 20] <nil>
	// 1 call of the driver <nil>
}

// A NUMA node that does not exist is found before anything is tried.
func ExamplePinError() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	_, err := ferry.AllocHost[byte](gpu, 8<<30, &ferry.HostOptions{NUMANode: new(7)})
	if pinErr, ok := errors.AsType[*ferry.PinError](err); ok {
		fmt.Println(err)
		fmt.Println("to do:", pinErr.Do)
	}
	// Output:
	// allocate 8.0 GiB of page-locked memory on soft:h200: CUDA_ERROR_INVALID_VALUE: an argument is out of range, null, or does not fit the others: there is no NUMA node 7 (there are: 0): ask for one that is there, or none
	// to do: ask for one that is there, or none
}

// A message of bytes has numbers, which a kernel adds to each other.
func ExampleView() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	add, _ := module.Kernel("vector_add")
	message := bytes.NewReader([]byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}) // 1 and 2, as float32
	frame, _ := ferry.Alloc[byte](gpu, message.Len())
	defer frame.Close()

	if _, err := ferry.CopyFrom(context.Background(), s, frame, message); err != nil {
		log.Fatal(err)
	}
	numbers := ferry.View[float32](frame)
	if err := s.Launch(add, ferry.Cover(2, 32), numbers, numbers, numbers, uint64(2)); err != nil {
		log.Fatal(err)
	}
	sums, err := ferry.Download(numbers)
	fmt.Println(sums, err)
	err = ferry.View[[3]float32](frame).Wait(context.Background()) // its 8 bytes are no multiple of 12
	fmt.Println(errors.Is(err, cu.ErrorInvalidValue))
	// Output:
	// [2 4] <nil>
	// true
}

// Another library has device memory and a stream. Here the calls of the driver stand for it.
func ExampleWrapDevice() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	library, ctx := gpu.Driver(), gpu.CUContext()
	ptr, _ := library.MemAlloc(ctx, 3*4)
	handle, _ := library.StreamCreate(ctx, cu.StreamNonBlocking)

	vec, err := ferry.WrapDevice[float32](gpu, ptr, 3, func() error {
		fmt.Println("the library frees its memory")
		return library.MemFree(ctx, ptr)
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err := ferry.WrapStream(gpu, handle)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(ferry.Copy(s, vec, ferry.Pageable([]float32{1, 2, 3})), s.Wait(context.Background())); err != nil {
		log.Fatal(err)
	}
	got, _ := ferry.Download(vec)
	fmt.Println(got)
	_, err = ferry.WrapDevice[float32](gpu, ptr, 4, nil)
	fmt.Println(errors.Is(err, cu.ErrorInvalidValue)) // it has 3 elements

	fmt.Println(vec.Close(), s.Close(), library.StreamDestroy(ctx, handle))
	// Output:
	// [1 2 3]
	// true
	// the library frees its memory
	// <nil> <nil> <nil>
}

// Another library has page-locked the memory of a slice. Here a call of the driver stands for it.
func ExampleWrapHost() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	library, ctx := gpu.Driver(), gpu.CUContext()
	samples := make([]float32, 3)
	start := cu.HostPtr(&samples[0])
	if err := library.MemHostRegister(ctx, start, 3*4, cu.MemHostRegisterPortable); err != nil {
		log.Fatal(err)
	}

	host, err := ferry.WrapHost(gpu, samples, func() error { return library.MemHostUnregister(ctx, start) })
	if err != nil {
		log.Fatal(err)
	}
	if err := ferry.Fill(gpu.DefaultStream(), host, 7); err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Slice(), host.Close()) // Slice waits
	// Output:
	// [7 7 7] <nil>
}

// Another library has managed memory. Here a call of the driver stands for it.
func ExampleWrapManaged() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	library, ctx := gpu.Driver(), gpu.CUContext()
	ptr, err := library.MemAllocManaged(ctx, 3*4, cu.MemAttachGlobal)
	if err != nil {
		log.Fatal(err)
	}

	table, err := ferry.WrapManaged[uint32](gpu, ptr, 3, func() error { return library.MemFree(ctx, ptr) })
	if err != nil {
		log.Fatal(err)
	}
	if err := ferry.Fill(gpu.DefaultStream(), table, 7); err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.Slice()) // waits
	fmt.Println(table.Close())
	// Output:
	// [7 7 7]
	// <nil>
}

// HostStats shows what is page-locked, and by what.
func ExampleHostStats() {
	gpu, _ := ferry.Open("soft:h200")
	defer gpu.Close()
	h, _ := ferry.AllocHost[float32](gpu, 1<<20, nil)
	defer h.Close()
	pool, _ := ferry.NewPinnedPool(gpu, nil)
	defer pool.Close()
	if err := pool.Warm(context.Background(), 8<<20); err != nil {
		log.Fatal(err)
	}
	use, err := ferry.HostStats(gpu)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("AllocHost %d MiB, pools %d MiB, all %d MiB\n", use.Allocated>>20, use.Pooled>>20, use.Locked>>20)
	// Output:
	// AllocHost 4 MiB, pools 8 MiB, all 12 MiB
}

// A limit holds for all page-locked memory together.
func ExampleGPU_LimitHost() {
	gpu, _ := ferry.Open("soft:h200")
	defer gpu.Close()
	if err := gpu.LimitHost(1 << 20); err != nil {
		log.Fatal(err)
	}
	_, err := ferry.AllocHost[byte](gpu, 2<<20, nil)
	if cause, ok := errors.AsType[*ferry.PinError](err); ok {
		fmt.Println(cause.Why)
		fmt.Println(cause.Do)
	}
	// Output:
	// the limit of page-locked memory is 1.0 MiB (GPU.LimitHost), and nothing is page-locked
	// take less, or raise the limit
}

// Requests share a pool that is smaller than what all of them want. Those that find no memory wait, but
// no longer than their context.
func ExampleHost_AllocContext() {
	gpu, _ := ferry.Open("soft:h200")
	defer gpu.Close()
	pool, _ := ferry.NewPinnedPool(gpu, &ferry.PinnedPoolOptions{Max: 1 << 20})
	defer pool.Close()
	var requests sync.WaitGroup
	for range 20 {
		requests.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			var h ferry.Host[byte]
			if err := h.AllocContext(ctx, pool, 512<<10); err != nil {
				log.Fatal(err)
			}
			h.Close()
		})
	}
	requests.Wait()
	s, _ := pool.Stats()
	fmt.Printf("20 requests of 0.5 MiB, %d MiB page-locked\n", s.MostPinned>>20)
	// Output:
	// 20 requests of 0.5 MiB, 1 MiB page-locked
}

// MemoryPlaces names the lines that made what is in use.
func ExampleMemoryPlaces() {
	gpu, _ := ferry.Open("soft:h200")
	defer gpu.Close()
	gpu.RecordPlaces(true)
	for range 3 {
		d, _ := ferry.Alloc[float32](gpu, 1000)
		defer d.Close()
	}
	places, err := ferry.MemoryPlaces(gpu)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range places {
		fmt.Printf("%s: %d bytes in %d buffers\n", p.Kind, p.Bytes, p.Buffers)
	}
	// Output:
	// device: 12000 bytes in 3 buffers
}

// Log takes any slog.Logger. Here a handler prints what has come, without the time.
func ExampleLog() {
	gpu, _ := ferry.Open("soft:h200")
	defer gpu.Close()
	lines := make(chan string, 1)
	handler := slog.NewTextHandler(lineWriter(lines), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "place" {
			return slog.Attr{}
		}
		return a
	}})
	ferry.Log(slog.New(handler))
	defer ferry.Log(nil)
	_ = gpu.LimitHost(1 << 20)
	for range 5 { // the first of them is logged
		_, _ = ferry.AllocHost[byte](gpu, 2<<20, nil)
	}
	fmt.Print(<-lines)
	// Output:
	// level=WARN msg="limit of page-locked memory reached" reason="limit of the GPU" bytes=2097152 gpu=soft:h200 count=1
}

// lineWriter sends what is written to a channel.
type lineWriter chan string

func (w lineWriter) Write(b []byte) (int, error) { w <- string(b); return len(b), nil }
