package cookbook_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
)

func Example_asynchronousCalls() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()
	const n = 1 << 20
	host := must(ferry.AllocHost[byte](gpu, n, nil))
	defer host.Close()
	device := must(ferry.Alloc[byte](gpu, n))
	defer device.Close()

	hold := make(chan struct{}) // keeps the stream busy, so that nothing is done too early
	check(s.HostFunc(func() { <-hold }))
	check(ferry.Copy(s, device, host))
	check(ferry.Fill(s, device, 1))
	check(ferry.Copy(s, host, device))
	fmt.Println("all calls have returned; done:", must(s.Done())) // cudaStreamQuery
	close(hold)
	check(s.Wait(context.Background())) // cudaStreamSynchronize
	fmt.Println("waited:", host.Slice()[n-1])
	// Output:
	// all calls have returned; done: false
	// waited: 1
}

func Example_overlapOrders() {
	gpu := must(ferry.Open("soft:fermi-c2050")) // two copy engines
	defer gpu.Close()
	module := must(ferry.Load(gpu, []byte(kernels.PTX), nil))
	defer module.Close()
	increment := must(module.Kernel("increment"))
	const streams, n = 3, 1 << 20
	var (
		s       [streams]*ferry.Stream
		in, out [streams]*ferry.Host[float32]
		device  [streams]*ferry.Device[float32]
	)
	for i := range streams {
		s[i] = must(ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true}))
		defer s[i].Close()
		in[i] = must(ferry.AllocHost[float32](gpu, n, nil))
		defer in[i].Close()
		out[i] = must(ferry.AllocHost[float32](gpu, n, nil))
		defer out[i].Close()
		device[i] = must(ferry.Alloc[float32](gpu, n))
		defer device[i].Close()
	}
	steps := []func(i int) error{
		func(i int) error { return ferry.Copy(s[i], device[i], in[i]) },
		func(i int) error { return s[i].Launch(increment, gpu.GridStride(n), device[i], uint64(n)) },
		func(i int) error { return ferry.Copy(s[i], out[i], device[i]) },
	}
	timed := func(submit func() error) time.Duration {
		began := gpu.Now()
		check(errors.Join(submit(), gpu.Wait(context.Background())))
		return gpu.Now() - began
	}
	all := func(first, second int, do func(a, b int) error) func() error {
		return func() (err error) {
			for a := range first {
				for b := range second {
					err = errors.Join(err, do(a, b))
				}
			}
			return err
		}
	}
	one := timed(func() error { return errors.Join(steps[0](0), steps[1](0), steps[2](0)) })
	depth := timed(all(streams, len(steps), func(stream, step int) error { return steps[step](stream) }))
	breadth := timed(all(len(steps), streams, func(step, stream int) error { return steps[step](stream) }))
	fmt.Println("depth-first takes less than three streams in a row:", depth < 3*one)
	fmt.Println("breadth-first, too:", breadth < 3*one)
	// Output:
	// depth-first takes less than three streams in a row: true
	// breadth-first, too: true
}

func Example_callbacks() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()
	host := must(ferry.AllocHost[uint32](gpu, 2, nil))
	defer host.Close()
	device := must(ferry.Alloc[uint32](gpu, 2))
	defer device.Close()
	values := host.Slice() // a host function must not call the driver, so it gets the slice before

	check(ferry.Fill(s, device, 20))
	check(ferry.Copy(s, host, device))
	check(s.HostFunc(func() { fmt.Println("the copy is done:", values) })) // cudaLaunchHostFunc
	check(ferry.Fill(s, device, 30))                                       // begins when the host function has returned
	check(ferry.Copy(s, host, device))
	check(s.Wait(context.Background()))
	fmt.Println("the stream is done:", values)
	// Output:
	// the copy is done: [20 20]
	// the stream is done: [30 30]
}

func Example_priorities() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	least, greatest, err := gpu.Priorities() // cudaDeviceGetStreamPriorityRange
	check(err)
	low := must(ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true, Priority: least}))
	defer low.Close()
	high := must(ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true, Priority: greatest}))
	defer high.Close()
	fmt.Println("from", least, "to", greatest, "- a lower number goes first:", greatest < least)
	// Output:
	// from 0 to -5 - a lower number goes first: true
}

func Example_events() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()
	start := must(ferry.NewEvent(gpu, nil))
	defer start.Close()
	stop := must(ferry.NewEvent(gpu, nil))
	defer stop.Close()
	time := func(bytes int) float64 {
		host := must(ferry.AllocHost[byte](gpu, bytes, nil))
		defer host.Close()
		device := must(ferry.Alloc[byte](gpu, bytes))
		defer device.Close()
		check(s.Record(start))
		check(ferry.Copy(s, device, host))
		check(s.Record(stop))
		check(stop.Wait(context.Background())) // cudaEventSynchronize
		took := must(stop.Since(start))        // cudaEventElapsedTime
		return took.Seconds()
	}
	small, large := time(1<<24), time(1<<25)
	fmt.Printf("twice the bytes take %.1f times as long\n", large/small)
	// Output:
	// twice the bytes take 2.0 times as long
}

func Example_implicitSynchronization() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	blocking := must(ferry.NewStream(gpu, nil)) // cudaStreamDefault
	defer blocking.Close()
	free := must(ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true})) // cudaStreamNonBlocking
	defer free.Close()
	a := must(ferry.Alloc[byte](gpu, 1))
	defer a.Close()
	b := must(ferry.Alloc[byte](gpu, 1))
	defer b.Close()

	hold := make(chan struct{})
	check(gpu.DefaultStream().HostFunc(func() { <-hold })) // the default stream is busy
	check(ferry.Fill(blocking, a, 1))
	check(ferry.Fill(free, b, 1))
	check(free.Wait(context.Background()))
	fmt.Println("the non-blocking stream is done; the other one:", must(blocking.Done()))
	close(hold)
	check(blocking.Wait(context.Background()))
	fmt.Println("after the default stream:", must(blocking.Done()))
	// Output:
	// the non-blocking stream is done; the other one: false
	// after the default stream: true
}
