package cookbook_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

func Example_allocationKinds() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()
	const n = 1 << 18
	device := must(ferry.Alloc[float32](gpu, n)) // cudaMalloc
	defer device.Close()

	pageable := ferry.Pageable(make([]float32, n))        // malloc
	pinned := must(ferry.AllocHost[float32](gpu, n, nil)) // cudaMallocHost
	defer pinned.Close()                                  // cudaFreeHost
	written := must(ferry.AllocHost[float32](gpu, n, &ferry.HostOptions{WriteCombined: true}))
	defer written.Close()
	managed := must(ferry.AllocManaged[float32](gpu, n, nil)) // cudaMallocManaged
	defer managed.Close()

	for _, m := range []ferry.Memory[float32]{pageable, pinned, written, managed} {
		check(ferry.Copy(s, device, m))
		fmt.Println(m, "- Copy waits:", ferry.Synchronous(s, device, m))
	}
	// Output:
	// a pageable slice (262144 elements, 1.0 MiB) - Copy waits: true
	// page-locked buffer 2 (262144 float32, 1.0 MiB) on soft:h200 - Copy waits: false
	// page-locked buffer 3 (262144 float32, 1.0 MiB) on soft:h200 - Copy waits: false
	// managed buffer 4 (262144 float32, 1.0 MiB) on soft:h200 - Copy waits: false
}

func Example_mapped() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	if must(gpu.Attribute(cu.DeviceAttributeCanMapHostMemory)) == 0 {
		log.Fatal("the device cannot map host memory")
	}
	module := must(ferry.Load(gpu, []byte(kernels.PTX), nil))
	defer module.Close()
	increment := must(module.Kernel("increment"))

	values := must(ferry.AllocHost[float32](gpu, 4, &ferry.HostOptions{Mapped: true}))
	defer values.Close()
	copy(values.Slice(), []float32{0, 10, 20, 30})
	s := gpu.DefaultStream()
	check(s.Launch(increment, ferry.Cover(4, 32), values, uint64(4)))
	fmt.Println(values.Slice()) // waits for the kernel
	// Output:
	// [1 11 21 31]
}

func Example_writeCombined() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	for _, o := range []*ferry.HostOptions{nil, {WriteCombined: true}} {
		h := must(ferry.AllocHost[float32](gpu, 1<<20, o))
		values := h.Slice()
		for i := range values { // in order, and never read: what this memory is for
			values[i] = float32(i)
		}
		fmt.Println("write-combined:", must(h.Flags())&cu.MemHostAllocWriteCombined != 0)
		check(h.Close())
	}
	// Output:
	// write-combined: false
	// write-combined: true
}

func Example_portable() {
	gpus := must(ferry.OpenAll("soft:h200*2"))
	for _, g := range gpus {
		defer g.Close()
	}
	portable := must(ferry.AllocHost[byte](gpus[0], 4096, nil)) // portable is the default
	defer portable.Close()
	own := must(ferry.AllocHost[byte](gpus[0], 4096, &ferry.HostOptions{NotPortable: true}))
	defer own.Close()
	other := must(ferry.Alloc[byte](gpus[1], 4096))
	defer other.Close()

	s := must(ferry.NewStream(gpus[1], nil))
	defer s.Close()
	fmt.Println(ferry.Copy(s, other, portable))
	fmt.Println(ferry.Copy(s, other, own))
	// Output:
	// <nil>
	// copy on stream 1 of soft:h200*2 device 1: page-locked buffer 2 (4096 uint8, 4.0 KiB) on soft:h200*2 device 0 is page-locked for soft:h200*2 device 0 only, not for soft:h200*2 device 1: allocate it without NotPortable (CUDA_ERROR_INVALID_VALUE)
}

func Example_registered() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()
	device := must(ferry.Alloc[int32](gpu, 4))
	defer device.Close()

	values := []int32{1, 2, 3, 4} // memory of the program, which the driver did not allocate
	before := ferry.Synchronous(s, device, ferry.Pageable(values))
	host := must(ferry.Register(gpu, values, nil))
	fmt.Println("Copy waits:", before, "then", ferry.Synchronous(s, device, host))
	check(ferry.Copy(s, device, host))
	check(host.Close()) // waits
	fmt.Println(must(ferry.Download(device)))
	// Output:
	// Copy waits: true then false
	// [1 2 3 4]
}

func Example_unifiedAddresses() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	host := must(ferry.AllocHost[float32](gpu, 8, nil))
	defer host.Close()
	device := must(ferry.Alloc[float32](gpu, 8))
	defer device.Close()
	managed := must(ferry.AllocManaged[float32](gpu, 8, nil))
	defer managed.Close()

	for _, p := range []cu.DevicePtr{host.Pointer(), device.Pointer(), managed.Pointer()} {
		about := must(gpu.Driver().PointerGetAttributes(gpu.CUContext(), p))
		fmt.Println("on the host:", about.MemoryType == cu.MemoryTypeHost, "managed:", about.IsManaged)
	}
	// One call copies in any direction, because each address says where it is.
	s := gpu.DefaultStream()
	check(ferry.Fill(s, managed, 3))
	check(ferry.Copy(s, device, managed))
	check(ferry.Copy(s, host, device))
	check(s.Wait(context.Background()))
	fmt.Println(host.Slice()[7])
	// Output:
	// on the host: true managed: false
	// on the host: false managed: false
	// on the host: false managed: true
	// 3
}

func Example_managedDynamic() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	module := must(ferry.Load(gpu, []byte(kernels.PTX), nil))
	defer module.Close()
	increment := must(module.Kernel("increment"))
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()

	values := must(ferry.AllocManaged[float32](gpu, 3, nil))
	defer values.Close()
	copy(values.Slice(), []float32{1, 2, 3})  // the pages are on the host
	check(values.Prefetch(s, gpu.CUDevice())) // optional: the kernel would fault them in
	check(s.Launch(increment, ferry.Cover(3, 32), values, uint64(3)))
	fmt.Println(values.Slice()) // waits, and the page moves back
	// Output:
	// [2 3 4]
}

func Example_managedStatic() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	// In CUDA C: __device__ __managed__ int counters[3] = {5, 6, 7};
	module := must(ferry.Load(gpu, []byte(`.version 6.3
.target sm_52
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 counters[3] = {5, 6, 7};
`), nil))
	defer module.Close()
	counters := must(ferry.ManagedGlobal[uint32](module, "counters"))
	counters.Slice()[1] += 10 // the host uses the variable as it is
	check(ferry.Fill(gpu.DefaultStream(), counters.Range(2, 3), 1))
	fmt.Println(counters.Slice())
	// Output:
	// [5 16 1]
}
