package ferry_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// Work in chunks over two streams: while one chunk is computed, the next is copied in and
// the one before is copied out. Package pipeline does this with any source and destination.
func Example_overlap() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")
	const n, chunk = 1 << 20, 1 << 18
	in, _ := ferry.AllocHost[float32](gpu, n, nil)
	defer in.Close()
	out, _ := ferry.AllocHost[float32](gpu, n, nil)
	defer out.Close()
	device, _ := ferry.Alloc[float32](gpu, n)
	defer device.Close()
	var streams [2]*ferry.Stream
	for i := range streams {
		streams[i], _ = ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true})
		defer streams[i].Close()
	}
	values := in.Slice()
	for i := range values {
		values[i] = float32(i)
	}

	for at := 0; at < n; at += chunk {
		s, part := streams[at/chunk%2], device.Range(at, at+chunk)
		if err := errors.Join(
			ferry.Copy(s, part, in.Range(at, at+chunk)),
			s.Launch(increment, ferry.Cover(chunk, 256), part, uint64(chunk)),
			ferry.Copy(s, out.Range(at, at+chunk), part),
		); err != nil {
			log.Fatal(err)
		}
	}
	wrong := 0
	for i, v := range out.Slice() { // Slice waits for both streams
		if v != float32(i+1) {
			wrong++
		}
	}
	fmt.Println(n/chunk, "chunks,", wrong, "wrong elements")
	// Output:
	// 4 chunks, 0 wrong elements
}

// Host functions of one stream run in its order. An event orders those of two streams.
func ExampleStream_HostFunc_twoStreams() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	a, _ := ferry.NewStream(gpu, nil)
	defer a.Close()
	b, _ := ferry.NewStream(gpu, nil)
	defer b.Close()
	cooked, _ := ferry.NewEvent(gpu, &ferry.EventOptions{NoTiming: true})
	defer cooked.Close()

	var steps []string
	step := func(s *ferry.Stream, name string) error {
		return s.HostFunc(func() { steps = append(steps, name) })
	}
	if err := errors.Join(
		step(a, "chop"), step(a, "cook"), a.Record(cooked),
		b.WaitEvent(cooked), step(b, "serve"), step(b, "eat"),
		b.Wait(context.Background()),
	); err != nil {
		log.Fatal(err)
	}
	fmt.Println(steps)
	// Output:
	// [chop cook serve eat]
}

// After the receive, code runs when the stream has reached this point. It may call the
// driver, which a host function must not.
func ExampleStream_Notify() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	device, _ := ferry.Alloc[int32](gpu, 3)
	host, _ := ferry.AllocHost[int32](gpu, 3, nil)
	defer host.Close()
	ctx := context.Background() // real programs have one that ends

	if err := errors.Join(ferry.Fill(s, device, 11), ferry.Copy(s, host, device)); err != nil {
		log.Fatal(err)
	}
	done, err := s.Notify()
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-done:
		fmt.Println(host.Slice(), device.Close())
	case <-ctx.Done():
		log.Fatal(ctx.Err())
	}
	// Output:
	// [11 11 11] <nil>
}

// Of two streams that have work, the one with the lower number goes first.
func ExampleStreamOptions() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	least, greatest, err := gpu.Priorities()
	if err != nil {
		log.Fatal(err)
	}
	background, _ := ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true, Priority: least})
	defer background.Close()
	urgent, _ := ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true, Priority: greatest})
	defer urgent.Close()
	large, _ := ferry.AllocHost[float32](gpu, 1<<20, &ferry.HostOptions{Mapped: true})
	defer large.Close()
	small, _ := ferry.AllocHost[float32](gpu, 16, &ferry.HostOptions{Mapped: true})
	defer small.Close()

	if err := errors.Join(ferry.Fill(background, large, 1), ferry.Fill(urgent, small, 2)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(greatest <= least, small.Slice()[15], large.Slice()[1<<20-1])
	// Output:
	// true 2 1
}

// A batch is queued by one call into the driver, any number of times.
func ExampleBatch() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	host, _ := ferry.AllocHost[float32](gpu, 3, nil)
	defer host.Close()
	device, _ := ferry.Alloc[float32](gpu, 3)
	defer device.Close()

	var step ferry.Batch
	if err := errors.Join(
		ferry.Copy(&step, device, host),
		step.Launch(increment, ferry.Cover(3, 32), device, uint64(3)),
		ferry.Copy(&step, host, device),
	); err != nil {
		log.Fatal(err)
	}
	copy(host.Slice(), []float32{10, 20, 30})
	for range 2 {
		if err := s.Submit(&step); err != nil {
			log.Fatal(err)
		}
		fmt.Println(host.Slice())
	}
	// Output:
	// [11 21 31]
	// [12 22 32]
}

// Work is captured once and launched three times. The graph uses the same buffers each
// time, and Slice waits for it.
func ExampleStream_Capture() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	in, _ := ferry.AllocHost[float32](gpu, 4, nil)
	defer in.Close()
	out, _ := ferry.AllocHost[float32](gpu, 4, nil)
	defer out.Close()
	device, _ := ferry.Alloc[float32](gpu, 4)

	graph, err := s.Capture(func(s *ferry.Stream) error {
		return errors.Join(
			ferry.Copy(s, device, in),
			s.Launch(increment, ferry.Cover(4, 32), device, uint64(4)),
			ferry.Copy(s, out, device))
	})
	if err != nil {
		log.Fatal(err)
	}
	defer graph.Close()
	device.Close() // the graph keeps it

	for n := range 3 {
		for i := range in.Slice() {
			in.Slice()[i] = float32(10*n + i)
		}
		if err := graph.Launch(s); err != nil {
			log.Fatal(err)
		}
		fmt.Println(out.Slice())
	}
	// Output:
	// [1 2 3 4]
	// [11 12 13 14]
	// [21 22 23 24]
}

// A graph cannot keep ordinary Go memory.
func ExampleStream_Capture_pageable() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	device, _ := ferry.Alloc[float32](gpu, 2)
	defer device.Close()

	_, err := s.Capture(func(s *ferry.Stream) error {
		return ferry.Copy(s, device, ferry.Pageable([]float32{1, 2}))
	})
	fmt.Println(errors.Is(err, cu.ErrorInvalidValue))
	fmt.Println(ferry.Fill(s, device, 0)) // the stream works as before
	// Output:
	// true
	// <nil>
}

// Since is an error before the work between two events is done.
func ExampleEvent_Since_notReady() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	start, _ := ferry.NewEvent(gpu, nil)
	defer start.Close()
	end, _ := ferry.NewEvent(gpu, nil)
	defer end.Close()
	device, _ := ferry.Alloc[byte](gpu, 1<<24)
	defer device.Close()

	finish := make(chan struct{})
	if err := errors.Join(s.Record(start), s.HostFunc(func() { <-finish }), ferry.Fill(s, device, 1), s.Record(end)); err != nil {
		log.Fatal(err)
	}
	_, err := end.Since(start)
	fmt.Println("before:", errors.Is(err, cu.ErrorNotReady))
	close(finish)
	if err := end.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	took, err := end.Since(start)
	fmt.Println("after:", took > 0, err)
	// Output:
	// before: true
	// after: true <nil>
}

// Memory for one step of the work is allocated and freed in the order of the stream. Neither
// waits.
func ExampleAllocAsync() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	results, _ := ferry.AllocHost[float32](gpu, 3, nil)
	defer results.Close()

	for i := range 3 {
		scratch, err := ferry.AllocAsync[float32](s, 1, nil)
		if err != nil {
			log.Fatal(err)
		}
		if err := errors.Join(
			ferry.Fill(s, scratch, float32(i)),
			s.Launch(increment, ferry.Cover(1, 32), scratch, uint64(1)),
			ferry.Copy(s, results.Range(i, i+1), scratch),
			scratch.Close(), // frees the memory when the copy is done
		); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(results.Slice())
	// Output:
	// [1 2 3]
}

// Synchronous says whether Copy would wait.
func ExampleSynchronous() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s := gpu.DefaultStream()
	device, _ := ferry.Alloc[byte](gpu, 100)
	defer device.Close()
	pinned, _ := ferry.AllocHost[byte](gpu, 100, nil)
	defer pinned.Close()
	pageable := ferry.Pageable(make([]byte, 100))

	fmt.Println("from page-locked memory:", ferry.Synchronous(s, device, pinned))
	fmt.Println("from pageable memory:", ferry.Synchronous(s, device, pageable))
	// Output:
	// from page-locked memory: false
	// from pageable memory: true
}

// Another library fills memory of Ferry in a stream of Ferry. Here its call is one of package cu; a
// library that is called by purego or cgo gets the same handle and address.
func ExampleStream_External() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	on, _ := ferry.Alloc[byte](gpu, 4)
	defer on.Close()
	fill := func(h cu.Stream, p cu.DevicePtr, value byte, bytes uintptr) error {
		return gpu.Driver().MemsetD8Async(gpu.CUContext(), p, value, bytes, h)
	}

	err := s.External(func(h cu.Stream) error {
		return fill(h, on.Pointer(), 7, 4) // queues, and returns
	}, ferry.Writes(on))
	if err != nil {
		log.Fatal(err)
	}
	got, _ := ferry.Download(on)
	fmt.Println(got)
	// Output:
	// [7 7 7 7]
}

// A library that asks the driver for the current context is called with one.
func ExampleGPU_Current() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()

	err := gpu.Current(func() error {
		// Calls of the library stand here. Ferry can be used, too.
		return gpu.DefaultStream().Wait(context.Background())
	})
	fmt.Println(err)
	// Output:
	// <nil>
}

// Another library has a stream and an event that it records there. Work of Ferry comes after it.
func ExampleWrapEvent() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	library, ctx := gpu.Driver(), gpu.CUContext()
	theirs, _ := library.StreamCreate(ctx, cu.StreamNonBlocking)
	ready, _ := library.EventCreate(ctx, cu.EventDisableTiming)
	on, _ := ferry.Alloc[byte](gpu, 4)
	defer on.Close()
	s, _ := ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true})
	defer s.Close()

	// The library fills the memory, and records its event.
	if err := errors.Join(library.MemsetD8Async(ctx, on.Pointer(), 1, 4, theirs), library.EventRecord(ctx, ready, theirs)); err != nil {
		log.Fatal(err)
	}
	event, err := ferry.WrapEvent(gpu, ready)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(s.WaitEvent(event), ferry.Fill(s, on.Range(0, 2), 2)); err != nil {
		log.Fatal(err)
	}
	got, _ := ferry.Download(on)
	fmt.Println(got)
	fmt.Println(event.Close(), library.EventDestroy(ctx, ready), library.StreamDestroy(ctx, theirs))
	// Output:
	// [2 2 1 1]
	// <nil> <nil> <nil>
}

// Another library has a stream, which Ferry uses as its own. Close does not destroy it.
func ExampleWrapStream() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	library, ctx := gpu.Driver(), gpu.CUContext()
	handle, _ := library.StreamCreate(ctx, cu.StreamNonBlocking)
	host, _ := ferry.AllocHost[byte](gpu, 4, nil)
	defer host.Close()
	on, _ := ferry.Alloc[byte](gpu, 4)
	defer on.Close()

	s, err := ferry.WrapStream(gpu, handle)
	if err != nil {
		log.Fatal(err)
	}
	if err := library.MemsetD8Async(ctx, on.Pointer(), 5, 4, handle); err != nil { // the library's work goes first
		log.Fatal(err)
	}
	if err := ferry.Copy(s, host, on); err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Slice(), s.Close(), library.StreamDestroy(ctx, handle))
	// Output:
	// [5 5 5 5] <nil> <nil>
}

// Another library launches a kernel of Ferry by its handle. Close of the module waits for it.
func ExampleRuns() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	fill, _ := module.Kernel("fill")
	on, _ := ferry.Alloc[uint32](gpu, 4)
	defer on.Close()

	err = gpu.DefaultStream().External(func(h cu.Stream) error {
		params := binary.LittleEndian.AppendUint64(nil, uint64(on.Pointer()))
		params = binary.LittleEndian.AppendUint32(params, 9) // the value
		params = append(params, 0, 0, 0, 0)                  // the number of words is at a multiple of 8
		params = binary.LittleEndian.AppendUint64(params, 4)
		one := cu.Dim3{X: 1, Y: 1, Z: 1}
		return gpu.Driver().LaunchKernel(gpu.CUContext(), fill.Handle(), one, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, h, params)
	}, ferry.Runs(fill), ferry.Writes(on))
	fmt.Println(err, module.Close())
	got, _ := ferry.Download(on)
	fmt.Println(got)
	// Output:
	// <nil> <nil>
	// [9 9 9 9]
}

// A library that was compiled for the per-thread default stream takes no stream.
func ExampleStream_ExternalPerThread() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	s, _ := ferry.NewStream(gpu, nil)
	defer s.Close()
	on, _ := ferry.Alloc[byte](gpu, 4)
	defer on.Close()
	zero := func(p cu.DevicePtr, bytes uintptr) error { // the library
		return gpu.Driver().MemsetD8Async(gpu.CUContext(), p, 0, bytes, cu.StreamPerThread)
	}

	err = errors.Join(
		ferry.Fill(s, on, 7),
		s.ExternalPerThread(func(cu.Stream) error { return zero(on.Pointer(), 2) }, ferry.Writes(on)),
		ferry.Fill(s, on.Range(0, 1), 8))
	got, _ := ferry.Download(on)
	fmt.Println(got, err)
	// Output:
	// [8 0 7 7] <nil>
}

// A server keeps streams in a buffered channel. It makes them once, a request borrows one, and waits while
// all are in use.
func Example_streamPool() {
	gpu, _ := ferry.Open("soft:h200")
	defer gpu.Close()
	module, _ := ferry.Load(gpu, []byte(kernels.PTX), nil)
	defer module.Close()
	increment, _ := module.Kernel("increment")

	streams := make(chan *ferry.Stream, 4)
	for range cap(streams) {
		s, err := ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true})
		if err != nil {
			log.Fatal(err)
		}
		streams <- s
	}
	serve := func(ctx context.Context, values []float32) error {
		var s *ferry.Stream
		select {
		case s = <-streams:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { streams <- s }()
		d, err := ferry.Alloc[float32](gpu, len(values))
		if err != nil {
			return err
		}
		return errors.Join(
			ferry.Copy(s, d, ferry.Pageable(values)),
			s.Launch(increment, ferry.Cover(len(values), 256), d, uint64(len(values))),
			ferry.Copy(s, ferry.Pageable(values), d),
			d.Close(),
		)
	}
	var requests sync.WaitGroup
	for range 20 {
		requests.Go(func() {
			values := []float32{1, 2, 3}
			if err := serve(context.Background(), values); err != nil || !slices.Equal(values, []float32{2, 3, 4}) {
				log.Fatal(values, err)
			}
		})
	}
	requests.Wait()
	for range cap(streams) { // all are back: none is in use
		if err := (<-streams).Close(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("20 requests on", cap(streams), "streams")
	// Output:
	// 20 requests on 4 streams
}

// closers are what is open, in the order in which it was opened.
type closers []io.Closer

// Close closes all, the last one first, and returns all errors.
func (c closers) Close() (err error) {
	for _, x := range slices.Backward(c) {
		err = errors.Join(err, x.Close())
	}
	return err
}

// A program with many objects closes them in one deferred call, which loses no error. It stops opening at
// the first error.
func Example_closeAll() {
	run := func() (err error) {
		var open closers
		defer func() { err = errors.Join(err, open.Close()) }()
		gpu, err := ferry.Open("soft:h200")
		if err != nil {
			return err
		}
		open = append(open, gpu)
		pool, err := ferry.NewPinnedPool(gpu, nil)
		if err != nil {
			return err
		}
		open = append(open, pool)
		for range 6 {
			s, err := ferry.NewStream(gpu, nil)
			if err != nil {
				return err
			}
			open = append(open, s)
		}
		fmt.Println(len(open), "objects are open")
		return nil
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// 8 objects are open
}
