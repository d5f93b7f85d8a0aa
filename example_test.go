package ferry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// This program copies a slice to the GPU, runs a kernel on it, and copies the result back.
// The other examples ignore errors of calls that make things; real programs check them.
func Example() {
	result, err := increment([]float32{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result)
	// Output:
	// on soft:h200 (software, predicts NVIDIA H200)
	// [2 3 4]
}

func increment(values []float32) ([]float32, error) {
	gpu, err := ferry.Open("soft") // "" opens a real GPU if there is one
	if err != nil {
		return nil, err
	}
	defer gpu.Close()
	fmt.Println("on", gpu)
	module, err := ferry.Load(gpu, []byte(kernels.PTX), nil)
	if err != nil {
		return nil, err
	}
	defer module.Close()
	kernel, err := module.Kernel("increment")
	if err != nil {
		return nil, err
	}
	vec, err := ferry.Upload(gpu, values)
	if err != nil {
		return nil, err
	}
	defer vec.Close()

	n := len(values)
	if err := gpu.DefaultStream().Launch(kernel, ferry.Cover(n, 256), vec, uint64(n)); err != nil {
		return nil, err
	}
	return ferry.Download(vec) // waits for the kernel
}

// Upload and Download copy all of a slice, and return when that is done.
func ExampleUpload() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()

	device, err := ferry.Upload(gpu, []int16{2, 7, 1, 8})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	back, err := ferry.Download(device.Range(1, 3))
	fmt.Println(device.Len(), back, err)
	// Output:
	// 4 [7 1] <nil>
}

// Copies between page-locked memory and the GPU return at once. Slice waits for them.
func ExampleCopy() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	device, _ := ferry.Alloc[byte](gpu, 8)
	defer device.Close()
	host, _ := ferry.AllocHost[byte](gpu, 8, nil)
	defer host.Close()

	copy(host.Slice(), "crossing")
	if err := ferry.Copy(s, device, host); err != nil {
		log.Fatal(err)
	}
	if err := ferry.Copy(s, host.Range(0, 4), device.Range(4, 8)); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", host.Slice())
	// Output:
	// singsing
}

// Ordinary slices can be copied, too. Copy then waits until they are read or written.
func ExamplePageable() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	device, _ := ferry.Alloc[int](gpu, 3)
	defer device.Close()
	s := gpu.DefaultStream()

	if err := ferry.Copy(s, device, ferry.Pageable([]int{3, 1, 4})); err != nil {
		log.Fatal(err)
	}
	back := make([]int, 3)
	if err := ferry.Copy(s, ferry.Pageable(back), device); err != nil {
		log.Fatal(err)
	}
	fmt.Println(back)
	// Output:
	// [3 1 4]
}

// The kernel reads and writes mapped host memory, so that nothing is copied.
func ExampleHost_Pointer() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	add, _ := module.Kernel("vector_add")

	const n = 5
	mapped := &ferry.HostOptions{Mapped: true}
	a, _ := ferry.AllocHost[float32](gpu, n, mapped)
	defer a.Close()
	b, _ := ferry.AllocHost[float32](gpu, n, mapped)
	defer b.Close()
	sum, _ := ferry.AllocHost[float32](gpu, n, mapped)
	defer sum.Close()
	copy(a.Slice(), []float32{1, 2, 3, 4, 5})
	copy(b.Slice(), []float32{10, 20, 30, 40, 50})

	if err := s.Launch(add, ferry.Cover(n, 32), a, b, sum, uint64(n)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Pointer() != 0, sum.Slice())
	// Output:
	// true [11 22 33 44 55]
}

// SliceContext returns when its context ends, although the GPU is still working.
func ExampleHost_SliceContext() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	host, _ := ferry.AllocHost[byte](gpu, 1, &ferry.HostOptions{Mapped: true})
	defer host.Close()
	finish := make(chan struct{})
	if err := errors.Join(s.HostFunc(func() { <-finish }), ferry.Fill(s, host, 7)); err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := host.SliceContext(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	close(finish)
	fmt.Println(host.SliceContext(context.Background()))
	// Output:
	// true
	// [7] <nil>
}

// An existing slice is page-locked where it is.
func ExampleRegister() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	device, _ := ferry.Upload(gpu, []uint16{2, 3, 5, 7})
	defer device.Close()

	values := make([]uint16, 4)
	host, err := ferry.Register(gpu, values, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := ferry.Copy(s, host, device); err != nil {
		log.Fatal(err)
	}
	err = host.Close() // waits; then the slice is ordinary memory again
	fmt.Println(values, err)
	// Output:
	// [2 3 5 7] <nil>
}

// Managed memory has one address for the host and the GPU.
func ExampleAllocManaged() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")

	v, err := ferry.AllocManaged[float32](gpu, 4, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	copy(v.Slice(), []float32{0, 10, 20, 30})
	if err := v.Prefetch(s, gpu.CUDevice()); err != nil { // optional: pages also move when they are touched
		log.Fatal(err)
	}
	if err := s.Launch(increment, ferry.Cover(4, 32), v, uint64(4)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.Slice())
	// Output:
	// [1 11 21 31]
}

// Events measure the time between two points of a stream. On the software GPU it is the
// time predicted for the machine that it emulates, and the same in each run.
func ExampleEvent_Since() {
	first, second := copyTime(1<<28), copyTime(1<<28)
	fmt.Println(first.Round(time.Millisecond), first == second)
	// Output:
	// 5ms true
}

func copyTime(bytes int) time.Duration {
	gpu, _ := ferry.Open("soft:h200")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	host, _ := ferry.AllocHost[byte](gpu, bytes, nil)
	defer host.Close()
	device, _ := ferry.Alloc[byte](gpu, bytes)
	defer device.Close()
	start, _ := ferry.NewEvent(gpu, nil)
	defer start.Close()
	end, _ := ferry.NewEvent(gpu, nil)
	defer end.Close()

	if err := errors.Join(s.Record(start), ferry.Copy(s, device, host), s.Record(end), s.Wait(context.Background())); err != nil {
		log.Fatal(err)
	}
	took, err := end.Since(start)
	if err != nil {
		log.Fatal(err)
	}
	return took
}

// One stream waits for an event that was recorded in another.
func ExampleStream_WaitEvent() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	producer, _ := ferry.NewStream(gpu, nil)
	defer producer.Close()
	consumer, _ := ferry.NewStream(gpu, nil)
	defer consumer.Close()
	filled, _ := ferry.NewEvent(gpu, &ferry.EventOptions{NoTiming: true})
	defer filled.Close()
	device, _ := ferry.Alloc[int32](gpu, 2)
	defer device.Close()
	host, _ := ferry.AllocHost[int32](gpu, 2, nil)
	defer host.Close()

	if err := errors.Join(
		ferry.Fill(producer, device, 7), producer.Record(filled),
		consumer.WaitEvent(filled), ferry.Copy(consumer, host, device),
	); err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Slice())
	// Output:
	// [7 7]
}

// A Go function runs in the order of the stream. It must not call the driver, so it gets
// its slice before. Wait reports its panic.
func ExampleStream_HostFunc() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	host, _ := ferry.AllocHost[uint32](gpu, 3, &ferry.HostOptions{Mapped: true})
	defer host.Close()
	values := host.Slice()

	if err := errors.Join(
		ferry.Fill(s, host, 5),
		s.HostFunc(func() { values[1] *= 100 }),
		s.HostFunc(func() { panic("no more") }),
	); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Wait(context.Background()))
	fmt.Println(values)
	// Output:
	// wait for stream 1 of soft:h200: host function panicked: no more
	// [5 500 5]
}

// Arguments and the configuration are checked before the driver is called.
func ExampleStream_Launch() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	fill, _ := module.Kernel("fill")
	v, _ := ferry.Alloc[uint32](gpu, 10)
	defer v.Close()

	s := gpu.DefaultStream()
	fmt.Println(s.Launch(fill, ferry.Cover(10, 32), v, uint32(7), 10.0))
	fmt.Println(s.Launch(fill, ferry.Cover(10, 4096), v, uint32(7), uint64(10)))
	_, err := module.Kernel("empty")
	fmt.Println(errors.Is(err, cu.ErrorNotFound))
	// Output:
	// launch fill (grid 1x1x1, block 32x1x1) on the default stream of soft:h200: parameter 2 (.u64 fill_param_2, 8 bytes): got float64, want uint64 or a buffer (CUDA_ERROR_INVALID_VALUE)
	// launch fill (grid 1x1x1, block 4096x1x1) on the default stream of soft:h200: a block of 4096 threads along x: the device takes 1024 at most (CUDA_ERROR_INVALID_VALUE)
	// true
}

// A use after Close is an error that says which buffer was closed.
func ExampleErrClosed() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	v, _ := ferry.Alloc[float64](gpu, 512)
	fmt.Println(v.Close(), v.Close()) // to close twice is no error

	err := ferry.Fill(gpu.DefaultStream(), v, 0)
	fmt.Println(err)
	fmt.Println(errors.Is(err, ferry.ErrClosed))
	// Output:
	// <nil> <nil>
	// fill device buffer 1 (512 float64, 4.0 KiB) on soft:h200: already closed
	// true
}

// The software GPU can emulate other machines. An error for what a machine cannot do says
// why, and what to do instead.
func ExampleOpen() {
	gpu, err := ferry.Open("soft:fermi-c2050")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	fmt.Println(gpu)
	_, err = ferry.AllocManaged[byte](gpu, 100, nil)
	fmt.Println(err)
	// Output:
	// soft:fermi-c2050 (software, predicts Tesla C2050)
	// allocate managed memory on soft:fermi-c2050: the device cannot (CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY is 0): use Alloc and AllocHost, and copy (CUDA_ERROR_NOT_SUPPORTED)
}
