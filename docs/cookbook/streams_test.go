package cookbook_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
)

func Example_asynchronousCalls() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	const n = 1 << 20
	host, _ := ferry.AllocHost[byte](gpu, n, nil)
	defer host.Close()
	device, _ := ferry.Alloc[byte](gpu, n)
	defer device.Close()

	hold := make(chan struct{}) // keeps the stream busy, so that nothing is done too early
	if err := errors.Join(
		s.HostFunc(func() { <-hold }),
		ferry.Copy(s, device, host),
		ferry.Fill(s, device, 1),
		ferry.Copy(s, host, device),
	); err != nil {
		log.Fatal(err)
	}
	done, err := s.Done() // cudaStreamQuery
	fmt.Println("all calls have returned; done:", done, err)
	close(hold)
	err = s.Wait(context.Background()) // cudaStreamSynchronize
	fmt.Println("waited:", host.Slice()[n-1], err)
	// Output:
	// all calls have returned; done: false <nil>
	// waited: 1 <nil>
}

func Example_overlapOrders() {
	gpu, _ := ferry.Open("soft:fermi-c2050") // two copy engines
	defer gpu.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")
	const streams, n = 3, 1 << 20
	var (
		s       [streams]*ferry.Stream
		in, out [streams]*ferry.Host[float32]
		device  [streams]*ferry.Device[float32]
	)
	for i := range streams {
		s[i], _ = ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true})
		defer s[i].Close()
		in[i], _ = ferry.AllocHost[float32](gpu, n, nil)
		defer in[i].Close()
		out[i], _ = ferry.AllocHost[float32](gpu, n, nil)
		defer out[i].Close()
		device[i], _ = ferry.Alloc[float32](gpu, n)
		defer device[i].Close()
	}
	steps := []func(i int) error{
		func(i int) error { return ferry.Copy(s[i], device[i], in[i]) },
		func(i int) error { return s[i].Launch(increment, gpu.GridStride(n), device[i], uint64(n)) },
		func(i int) error { return ferry.Copy(s[i], out[i], device[i]) },
	}
	timed := func(submit func() error) time.Duration {
		began := gpu.Now()
		if err := errors.Join(submit(), gpu.Wait(context.Background())); err != nil {
			log.Fatal(err)
		}
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
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	host, _ := ferry.AllocHost[uint32](gpu, 2, nil)
	defer host.Close()
	device, _ := ferry.Alloc[uint32](gpu, 2)
	defer device.Close()
	values := host.Slice() // a host function must not call the driver, so it gets the slice before

	if err := errors.Join(
		ferry.Fill(s, device, 20),
		ferry.Copy(s, host, device),
		s.HostFunc(func() { fmt.Println("the copy is done:", values) }), // cudaLaunchHostFunc
		ferry.Fill(s, device, 30),                                       // begins when the host function has returned
		ferry.Copy(s, host, device),
		s.Wait(context.Background()),
	); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the stream is done:", values)
	// Output:
	// the copy is done: [20 20]
	// the stream is done: [30 30]
}

func Example_priorities() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	least, greatest, err := gpu.Priorities() // cudaDeviceGetStreamPriorityRange
	if err != nil {
		log.Fatal(err)
	}
	low, _ := ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true, Priority: least})
	defer low.Close()
	high, _ := ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true, Priority: greatest})
	defer high.Close()
	fmt.Println("from", least, "to", greatest, "- a lower number goes first:", greatest < least)
	// Output:
	// from 0 to -5 - a lower number goes first: true
}

func Example_events() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	start, _ := ferry.NewEvent(gpu, nil)
	defer start.Close()
	stop, _ := ferry.NewEvent(gpu, nil)
	defer stop.Close()
	time := func(bytes int) float64 {
		host, _ := ferry.AllocHost[byte](gpu, bytes, nil)
		defer host.Close()
		device, _ := ferry.Alloc[byte](gpu, bytes)
		defer device.Close()
		if err := errors.Join(
			s.Record(start), ferry.Copy(s, device, host), s.Record(stop),
			stop.Wait(context.Background()), // cudaEventSynchronize
		); err != nil {
			log.Fatal(err)
		}
		took, err := stop.Since(start) // cudaEventElapsedTime
		if err != nil {
			log.Fatal(err)
		}
		return took.Seconds()
	}
	small, large := time(1<<24), time(1<<25)
	fmt.Printf("twice the bytes take %.1f times as long\n", large/small)
	// Output:
	// twice the bytes take 2.0 times as long
}

func Example_implicitSynchronization() {
	gpu, _ := ferry.Open("soft")
	defer gpu.Close()
	blocking, _ := ferry.NewStream(gpu, nil) // cudaStreamDefault
	defer blocking.Close()
	free, _ := ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true}) // cudaStreamNonBlocking
	defer free.Close()
	a, _ := ferry.Alloc[byte](gpu, 1)
	defer a.Close()
	b, _ := ferry.Alloc[byte](gpu, 1)
	defer b.Close()

	hold := make(chan struct{})
	if err := errors.Join(
		gpu.DefaultStream().HostFunc(func() { <-hold }), // the default stream is busy
		ferry.Fill(blocking, a, 1),
		ferry.Fill(free, b, 1),
		free.Wait(context.Background()),
	); err != nil {
		log.Fatal(err)
	}
	done, err := blocking.Done()
	fmt.Println("the non-blocking stream is done; the other one:", done, err)
	close(hold)
	err = blocking.Wait(context.Background())
	fmt.Println("after the default stream:", err)
	// Output:
	// the non-blocking stream is done; the other one: false <nil>
	// after the default stream: <nil>
}
