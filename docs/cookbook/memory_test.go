package cookbook_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

func Example_allocationKinds() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	const n = 1 << 18
	device, _ := ferry.Alloc[float32](gpu, n) // cudaMalloc
	defer device.Close()

	pageable := ferry.Pageable(make([]float32, n))     // malloc
	pinned, _ := ferry.AllocHost[float32](gpu, n, nil) // cudaMallocHost
	defer pinned.Close()                               // cudaFreeHost
	written, _ := ferry.AllocHost[float32](gpu, n, &ferry.HostOptions{WriteCombined: true})
	defer written.Close()
	managed, _ := ferry.AllocManaged[float32](gpu, n, nil) // cudaMallocManaged
	defer managed.Close()

	for _, m := range []ferry.Memory[float32]{pageable, pinned, written, managed} {
		if err := ferry.Copy(s, device, m); err != nil {
			log.Fatal(err)
		}
		fmt.Println(m, "- Copy waits:", ferry.Synchronous(s, device, m))
	}
	// Output:
	// a pageable slice (262144 elements, 1.0 MiB) - Copy waits: true
	// page-locked buffer 2 (262144 float32, 1.0 MiB) on soft:h200 - Copy waits: false
	// page-locked buffer 3 (262144 float32, 1.0 MiB) on soft:h200 - Copy waits: false
	// managed buffer 4 (262144 float32, 1.0 MiB) on soft:h200 - Copy waits: false
}

func Example_mapped() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	if can, _ := gpu.Attribute(cu.DeviceAttributeCanMapHostMemory); can == 0 {
		log.Fatal("the device cannot map host memory")
	}
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")

	values, err := ferry.AllocHost[float32](gpu, 4, &ferry.HostOptions{Mapped: true})
	if err != nil {
		log.Fatal(err)
	}
	defer values.Close()
	copy(values.Slice(), []float32{0, 10, 20, 30})
	s := gpu.DefaultStream()
	if err := s.Launch(increment, ferry.Cover(4, 32), values, uint64(4)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(values.Slice()) // waits for the kernel
	// Output:
	// [1 11 21 31]
}

func Example_writeCombined() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	for _, o := range []*ferry.HostOptions{nil, {WriteCombined: true}} {
		h, err := ferry.AllocHost[float32](gpu, 1<<20, o)
		if err != nil {
			log.Fatal(err)
		}
		values := h.Slice()
		for i := range values { // in order, and never read: what this memory is for
			values[i] = float32(i)
		}
		flags, err := h.Flags()
		fmt.Println("write-combined:", flags&cu.MemHostAllocWriteCombined != 0, err)
		h.Close()
	}
	// Output:
	// write-combined: false <nil>
	// write-combined: true <nil>
}

func Example_portable() {
	gpus, err := ferry.OpenAll("soft:h200*2")
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range gpus {
		defer g.Close()
	}
	portable, _ := ferry.AllocHost[byte](gpus[0], 4096, nil) // portable is the default
	defer portable.Close()
	own, _ := ferry.AllocHost[byte](gpus[0], 4096, &ferry.HostOptions{NotPortable: true})
	defer own.Close()
	other, _ := ferry.Alloc[byte](gpus[1], 4096)
	defer other.Close()

	s, _ := ferry.NewStream(gpus[1], nil)
	defer s.Close()
	fmt.Println(ferry.Copy(s, other, portable))
	fmt.Println(ferry.Copy(s, other, own))
	// Output:
	// <nil>
	// copy on stream 1 of soft:h200*2 device 1: page-locked buffer 2 (4096 uint8, 4.0 KiB) on soft:h200*2 device 0 is page-locked for soft:h200*2 device 0 only, not for soft:h200*2 device 1: allocate it without NotPortable (CUDA_ERROR_INVALID_VALUE)
}

func Example_registered() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	device, _ := ferry.Alloc[int32](gpu, 4)
	defer device.Close()

	values := []int32{1, 2, 3, 4} // memory of the program, which the driver did not allocate
	before := ferry.Synchronous(s, device, ferry.Pageable(values))
	host, err := ferry.Register(gpu, values, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("Copy waits:", before, "then", ferry.Synchronous(s, device, host))
	if err := errors.Join(ferry.Copy(s, device, host), host.Close()); err != nil { // Close waits
		log.Fatal(err)
	}
	fmt.Println(ferry.Download(device))
	// Output:
	// Copy waits: true then false
	// [1 2 3 4] <nil>
}

func Example_unifiedAddresses() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	host, _ := ferry.AllocHost[float32](gpu, 8, nil)
	defer host.Close()
	device, _ := ferry.Alloc[float32](gpu, 8)
	defer device.Close()
	managed, _ := ferry.AllocManaged[float32](gpu, 8, nil)
	defer managed.Close()

	for _, p := range []cu.DevicePtr{host.Pointer(), device.Pointer(), managed.Pointer()} {
		about, err := gpu.Driver().PointerGetAttributes(gpu.CUContext(), p)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("on the host:", about.MemoryType == cu.MemoryTypeHost, "managed:", about.IsManaged)
	}
	// One call copies in any direction, because each address says where it is.
	s := gpu.DefaultStream()
	err := errors.Join(ferry.Fill(s, managed, 3), ferry.Copy(s, device, managed), ferry.Copy(s, host, device), s.Wait(context.Background()))
	fmt.Println(host.Slice()[7], err)
	// Output:
	// on the host: true managed: false
	// on the host: false managed: false
	// on the host: false managed: true
	// 3 <nil>
}

func Example_managedDynamic() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()

	values, err := ferry.AllocManaged[float32](gpu, 3, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer values.Close()
	copy(values.Slice(), []float32{1, 2, 3}) // the pages are on the host
	if err := errors.Join(
		values.Prefetch(s, gpu.CUDevice()), // optional: the kernel would fault them in
		s.Launch(increment, ferry.Cover(3, 32), values, uint64(3)),
	); err != nil {
		log.Fatal(err)
	}
	fmt.Println(values.Slice()) // waits, and the page moves back
	// Output:
	// [2 3 4]
}

func Example_managedStatic() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	// In CUDA C: __device__ __managed__ int counters[3] = {5, 6, 7};
	module, err := ferry.Load(gpu, []byte(`.version 6.3
.target sm_52
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 counters[3] = {5, 6, 7};
`), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer module.Close()
	counters, err := ferry.ManagedGlobal[uint32](module, "counters")
	if err != nil {
		log.Fatal(err)
	}
	counters.Slice()[1] += 10 // the host uses the variable as it is
	if err := ferry.Fill(gpu.DefaultStream(), counters.Range(2, 3), 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(counters.Slice())
	// Output:
	// [5 16 1]
}
