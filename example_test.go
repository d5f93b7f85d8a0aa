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

// A program from Go to the GPU and back. Errors are left out of the other
// examples where they would hide the point; real code has them.
func Example() {
	if err := addOne(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// on soft:h200 (software, predicts NVIDIA H200)
	// 1000 elements, the last is 1000
}

func addOne() error {
	const n = 1000
	dev, err := ferry.Open("soft") // "" would take a GPU if there is one
	if err != nil {
		return err
	}
	defer dev.Close()
	fmt.Println("on", dev)
	code, err := ferry.Load(dev, []byte(kernels.PTX))
	if err != nil {
		return err
	}
	defer code.Close()
	increment, err := code.Kernel("increment")
	if err != nil {
		return err
	}
	host, err := ferry.AllocHost[float32](dev, n, nil)
	if err != nil {
		return err
	}
	defer host.Close()
	vec, err := ferry.Alloc[float32](dev, n)
	if err != nil {
		return err
	}
	defer vec.Close()
	s, err := ferry.NewStream(dev, nil)
	if err != nil {
		return err
	}
	defer s.Close()

	for i := range host.Slice() {
		host.Slice()[i] = float32(i)
	}
	if err := ferry.Copy(s, vec, host); err != nil {
		return err
	}
	if err := s.Launch(increment, ferry.Grid(n, 256), vec, uint64(n)); err != nil {
		return err
	}
	if err := ferry.Copy(s, host, vec); err != nil {
		return err
	}
	if err := s.Wait(context.Background()); err != nil {
		return err
	}
	fmt.Printf("%d elements, the last is %v\n", host.Len(), host.Slice()[n-1])
	return nil
}

// Copies between page-locked memory and the GPU return at once; Slice waits.
func ExampleCopy() {
	dev, _ := ferry.Open("soft")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	there, _ := ferry.Alloc[byte](dev, 8)
	defer there.Close()
	host, _ := ferry.AllocHost[byte](dev, 8, nil)
	defer host.Close()

	copy(host.Slice(), "crossing")
	fmt.Println(ferry.Copy(s, there, host))
	fmt.Println(ferry.Copy(s, host.Range(0, 4), there.Range(4, 8)))
	fmt.Printf("%s\n", host.Slice())
	// Output:
	// <nil>
	// <nil>
	// singsing
}

// Ordinary slices can be copied, too; the driver stages them, and Copy waits.
func ExamplePageable() {
	dev, _ := ferry.Open("soft")
	defer dev.Close()
	there, _ := ferry.Alloc[int](dev, 3)
	defer there.Close()
	s := ferry.DefaultStream(dev)

	back := make([]int, 3)
	fmt.Println(ferry.Copy(s, there, ferry.Pageable([]int{3, 1, 4})))
	fmt.Println(ferry.Copy(s, ferry.Pageable(back), there), back)
	// Output:
	// <nil>
	// <nil> [3 1 4]
}

// Zero-copy: the kernel reads and writes the host's memory itself.
func ExampleHost_Pointer() {
	dev, _ := ferry.Open("soft")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	code, _ := ferry.Load(dev, []byte(kernels.PTX))
	defer code.Close()
	add, _ := code.Kernel("vector_add")

	const n = 5
	mapped := &ferry.HostOptions{Mapped: true}
	a, _ := ferry.AllocHost[float32](dev, n, mapped)
	defer a.Close()
	b, _ := ferry.AllocHost[float32](dev, n, mapped)
	defer b.Close()
	sum, _ := ferry.AllocHost[float32](dev, n, mapped)
	defer sum.Close()
	copy(a.Slice(), []float32{1, 2, 3, 4, 5})
	copy(b.Slice(), []float32{10, 20, 30, 40, 50})

	fmt.Println(a.Pointer() != 0, s.Launch(add, ferry.Grid(n, 32), a, b, sum, uint64(n)))
	fmt.Println(sum.Slice())
	// Output:
	// true <nil>
	// [11 22 33 44 55]
}

// A slice that exists already is page-locked where it is.
func ExampleRegister() {
	dev, _ := ferry.Open("soft")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	there, _ := ferry.Alloc[uint16](dev, 4)
	defer there.Close()

	mine := []uint16{2, 3, 5, 7}
	locked, err := ferry.Register(dev, mine, nil)
	fmt.Println(err)
	fmt.Println(ferry.Copy(s, there, locked), ferry.Fill(s, there.Range(1, 3), 0), ferry.Copy(s, locked, there))
	fmt.Println(locked.Close(), mine) // Close waits; the slice is ordinary memory again
	// Output:
	// <nil>
	// <nil> <nil> <nil>
	// <nil> [2 0 0 7]
}

// Managed memory has one address for both sides.
func ExampleAllocManaged() {
	dev, _ := ferry.Open("soft")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	code, _ := ferry.Load(dev, []byte(kernels.PTX))
	defer code.Close()
	increment, _ := code.Kernel("increment")

	v, _ := ferry.AllocManaged[float32](dev, 4, nil)
	defer v.Close()
	copy(v.Slice(), []float32{0, 10, 20, 30})
	fmt.Println(v.Prefetch(s, dev.Device()))
	fmt.Println(s.Launch(increment, ferry.Grid(4, 32), v, uint64(4)))
	fmt.Println(v.Slice())
	// Output:
	// <nil>
	// <nil>
	// [1 11 21 31]
}

// Events tell the device's time between two points of a stream. On the software
// GPU it is the time predicted for the machine that it plays, the same every run.
func ExampleEvent_Since() {
	first, second := copyTime(1<<28), copyTime(1<<28)
	fmt.Println(first.Round(time.Millisecond), first == second)
	// Output:
	// 5ms true
}

func copyTime(bytes int) time.Duration {
	dev, _ := ferry.Open("soft:h200")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	host, _ := ferry.AllocHost[byte](dev, bytes, nil)
	defer host.Close()
	there, _ := ferry.Alloc[byte](dev, bytes)
	defer there.Close()
	start, _ := ferry.NewEvent(dev, nil)
	defer start.Close()
	end, _ := ferry.NewEvent(dev, nil)
	defer end.Close()

	if err := errors.Join(s.Record(start), ferry.Copy(s, there, host), s.Record(end), s.Wait(context.Background())); err != nil {
		log.Fatal(err)
	}
	took, err := end.Since(start)
	if err != nil {
		log.Fatal(err)
	}
	return took
}

// One stream waits for another by an event.
func ExampleStream_WaitEvent() {
	dev, _ := ferry.Open("soft")
	defer dev.Close()
	in, _ := ferry.NewStream(dev, nil)
	defer in.Close()
	out, _ := ferry.NewStream(dev, nil)
	defer out.Close()
	filled, _ := ferry.NewEvent(dev, &ferry.EventOptions{NoTiming: true})
	defer filled.Close()
	there, _ := ferry.Alloc[int32](dev, 2)
	defer there.Close()
	host, _ := ferry.AllocHost[int32](dev, 2, nil)
	defer host.Close()

	fmt.Println(ferry.Fill(in, there, 7), in.Record(filled))
	fmt.Println(out.WaitEvent(filled), ferry.Copy(out, host, there))
	fmt.Println(host.Slice())
	// Output:
	// <nil> <nil>
	// <nil> <nil>
	// [7 7]
}

// Go code takes its turn in a stream. It gets its slices before.
func ExampleStream_HostFunc() {
	dev, _ := ferry.Open("soft")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	there, _ := ferry.Alloc[uint32](dev, 3)
	defer there.Close()
	host, _ := ferry.AllocHost[uint32](dev, 3, nil)
	defer host.Close()
	values := host.Slice()

	fmt.Println(ferry.Fill(s, there, 5), ferry.Copy(s, host, there))
	fmt.Println(s.HostFunc(func() { values[1] *= 100 }))
	fmt.Println(s.HostFunc(func() { panic("no more") }))
	fmt.Println(s.Wait(context.Background()))
	fmt.Println(values)
	// Output:
	// <nil> <nil>
	// <nil>
	// <nil>
	// wait for stream 1 of soft:h200: host function panicked: no more
	// [5 500 5]
}

// Arguments are checked before the driver sees them.
func ExampleStream_Launch() {
	dev, _ := ferry.Open("soft")
	defer dev.Close()
	code, _ := ferry.Load(dev, []byte(kernels.PTX))
	defer code.Close()
	fill, _ := code.Kernel("fill")
	v, _ := ferry.Alloc[uint32](dev, 10)
	defer v.Close()

	s := ferry.DefaultStream(dev)
	fmt.Println(s.Launch(fill, ferry.Grid(10, 32), v, uint32(7), 10.0))
	fmt.Println(s.Launch(fill, ferry.Grid(10, 4096), v, uint32(7), uint64(10)))
	_, err := code.Kernel("empty")
	fmt.Println(errors.Is(err, cu.ErrorNotFound))
	// Output:
	// launch fill (grid 1x1x1, block 32x1x1) on the default stream of soft:h200: parameter 2 (.u64 fill_param_2, 8 bytes): got float64, want uint64 or a buffer
	// launch fill (grid 1x1x1, block 4096x1x1) on the default stream of soft:h200: a block of 4096 threads along x: the device takes 1024 at most
	// true
}

// Memory is not used after it is closed.
func ExampleErrClosed() {
	dev, _ := ferry.Open("soft")
	defer dev.Close()
	v, _ := ferry.Alloc[float64](dev, 512)
	fmt.Println(v.Close(), v.Close())

	err := ferry.Fill(ferry.DefaultStream(dev), v, 0)
	fmt.Println(err)
	fmt.Println(errors.Is(err, ferry.ErrClosed))
	// Output:
	// <nil> <nil>
	// fill device buffer 1 (512 float64, 4.0 KiB) on soft:h200: already closed
	// true
}

// What a machine cannot do is said with the reason.
func ExampleOpen() {
	dev, err := ferry.Open("soft:fermi-c2050")
	fmt.Println(dev, err)
	defer dev.Close()
	_, err = ferry.AllocManaged[byte](dev, 100, nil)
	fmt.Println(err)
	// Output:
	// soft:fermi-c2050 (software, predicts Tesla C2050) <nil>
	// allocate managed memory on soft:fermi-c2050: the device cannot (CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY is 0): use Alloc and AllocHost, and copy
}
