package ferry_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// lab is what the examples of streams work with, on any device: Open("") takes
// FERRY_DEVICE, a GPU, or the software one.
type lab struct {
	dev       *ferry.GPU
	code      *ferry.Module
	increment *ferry.Kernel
}

func openLab() *lab {
	dev, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	code, err := ferry.Load(dev, []byte(kernels.PTX))
	if err != nil {
		log.Fatal(err)
	}
	increment, err := code.Kernel("increment")
	if err != nil {
		log.Fatal(err)
	}
	return &lab{dev, code, increment}
}

func (l *lab) Close() error { return errors.Join(l.code.Close(), l.dev.Close()) }

// Work in chunks over two streams: while one chunk is computed, the next is on its
// way in and the last on its way out.
func Example_overlap() {
	l := openLab()
	defer l.Close()
	const n, chunk = 1 << 20, 1 << 18
	in, _ := ferry.AllocHost[float32](l.dev, n, nil)
	defer in.Close()
	out, _ := ferry.AllocHost[float32](l.dev, n, nil)
	defer out.Close()
	there, _ := ferry.Alloc[float32](l.dev, n)
	defer there.Close()
	var streams [2]*ferry.Stream
	for i := range streams {
		streams[i], _ = ferry.NewStream(l.dev, &ferry.StreamOptions{NonBlocking: true})
		defer streams[i].Close()
	}
	for i := range in.Slice() {
		in.Slice()[i] = float32(i)
	}

	for at := 0; at < n; at += chunk {
		s, part := streams[at/chunk%2], there.Range(at, at+chunk)
		if err := errors.Join(
			ferry.Copy(s, part, in.Range(at, at+chunk)),
			s.Launch(l.increment, ferry.Grid(chunk, 256), part, uint64(chunk)),
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

// Host functions of one stream run in its order; an event orders those of two.
func ExampleStream_HostFunc_twoStreams() {
	l := openLab()
	defer l.Close()
	a, _ := ferry.NewStream(l.dev, nil)
	defer a.Close()
	b, _ := ferry.NewStream(l.dev, nil)
	defer b.Close()
	cooked, _ := ferry.NewEvent(l.dev, &ferry.EventOptions{NoTiming: true})
	defer cooked.Close()

	var story []string
	say := func(s *ferry.Stream, what string) {
		if err := s.HostFunc(func() { story = append(story, what) }); err != nil {
			log.Fatal(err)
		}
	}
	say(a, "chop")
	say(a, "cook")
	fmt.Println(a.Record(cooked), b.WaitEvent(cooked))
	say(b, "serve")
	say(b, "eat")
	fmt.Println(b.Wait(context.Background()), story)
	// Output:
	// <nil> <nil>
	// <nil> [chop cook serve eat]
}

// A receive is where ordinary code goes on when the stream has come to a point. It
// may use the driver, which a host function must not.
func ExampleStream_Notify() {
	l := openLab()
	defer l.Close()
	s, _ := ferry.NewStream(l.dev, nil)
	defer s.Close()
	there, _ := ferry.Alloc[int32](l.dev, 3)
	host, _ := ferry.AllocHost[int32](l.dev, 3, nil)
	defer host.Close()

	fmt.Println(ferry.Fill(s, there, 11), ferry.Copy(s, host, there))
	done, err := s.Notify()
	fmt.Println(err)
	select {
	case <-done:
		fmt.Println(there.Close(), host.Slice())
	case <-context.Background().Done(): // a real program has one that ends
	}
	// Output:
	// <nil> <nil>
	// <nil>
	// <nil> [11 11 11]
}

// Of two streams that have work, the one of the lower number goes first.
func ExampleStreamOptions() {
	l := openLab()
	defer l.Close()
	least, greatest, err := l.dev.Driver().CtxGetStreamPriorityRange(l.dev.Context())
	fmt.Println(greatest <= least, err)
	background, _ := ferry.NewStream(l.dev, &ferry.StreamOptions{NonBlocking: true, Priority: int(least)})
	defer background.Close()
	urgent, _ := ferry.NewStream(l.dev, &ferry.StreamOptions{NonBlocking: true, Priority: int(greatest)})
	defer urgent.Close()
	big, _ := ferry.AllocManaged[float32](l.dev, 1<<16, nil)
	defer big.Close()
	small, _ := ferry.AllocManaged[float32](l.dev, 16, nil)
	defer small.Close()

	fmt.Println(background.Launch(l.increment, ferry.Grid(big.Len(), 256), big, uint64(big.Len())))
	fmt.Println(urgent.Launch(l.increment, ferry.Grid(small.Len(), 256), small, uint64(small.Len())))
	fmt.Println(small.Slice()[15], big.Slice()[1<<16-1])
	// Output:
	// true <nil>
	// <nil>
	// <nil>
	// 1 1
}

// A step of a pipeline is captured once and launched three times. The graph uses
// the same buffers each time, and Slice knows when it does.
func ExampleStream_Capture() {
	l := openLab()
	defer l.Close()
	s, _ := ferry.NewStream(l.dev, nil)
	defer s.Close()
	in, _ := ferry.AllocHost[float32](l.dev, 4, nil)
	defer in.Close()
	out, _ := ferry.AllocHost[float32](l.dev, 4, nil)
	defer out.Close()
	there, _ := ferry.Alloc[float32](l.dev, 4)

	step, err := s.Capture(func(s *ferry.Stream) error {
		return errors.Join(
			ferry.Copy(s, there, in),
			s.Launch(l.increment, ferry.Grid(4, 32), there, uint64(4)),
			ferry.Copy(s, out, there))
	})
	fmt.Println(err)
	defer step.Close()
	there.Close() // the graph keeps it

	for n := range 3 {
		for i := range in.Slice() {
			in.Slice()[i] = float32(10*n + i)
		}
		if err := step.Launch(s); err != nil {
			log.Fatal(err)
		}
		fmt.Println(out.Slice())
	}
	// Output:
	// <nil>
	// [1 2 3 4]
	// [11 12 13 14]
	// [21 22 23 24]
}

// Graphs cannot keep ordinary Go memory.
func ExampleStream_Capture_plain() {
	l := openLab()
	defer l.Close()
	s, _ := ferry.NewStream(l.dev, nil)
	defer s.Close()
	there, _ := ferry.Alloc[float32](l.dev, 2)
	defer there.Close()

	_, err := s.Capture(func(s *ferry.Stream) error {
		return ferry.Copy(s, there, ferry.Pageable([]float32{1, 2}))
	})
	fmt.Println(errors.Is(err, cu.ErrorInvalidValue))
	fmt.Println(ferry.Fill(s, there, 0), s.Wait(context.Background())) // the stream is as before
	// Output:
	// true
	// <nil> <nil>
}

// Events measure the device's time, once it has passed.
func ExampleEvent_Since_notReady() {
	l := openLab()
	defer l.Close()
	s, _ := ferry.NewStream(l.dev, nil)
	defer s.Close()
	start, _ := ferry.NewEvent(l.dev, nil)
	defer start.Close()
	end, _ := ferry.NewEvent(l.dev, nil)
	defer end.Close()
	there, _ := ferry.Alloc[byte](l.dev, 1<<24)
	defer there.Close()

	open := make(chan struct{})
	if err := errors.Join(s.Record(start), s.HostFunc(func() { <-open }), ferry.Fill(s, there, 1), s.Record(end)); err != nil {
		log.Fatal(err)
	}
	_, err := end.Since(start)
	fmt.Println("before:", errors.Is(err, cu.ErrorNotReady))
	close(open)
	fmt.Println(end.Wait(context.Background()))
	took, err := end.Since(start)
	fmt.Println("after:", took > 0, err)
	// Output:
	// before: true
	// <nil>
	// after: true <nil>
}

// Memory for one step of the work comes and goes in the order of the stream;
// neither end of its life waits.
func ExampleAllocAsync() {
	l := openLab()
	defer l.Close()
	s, _ := ferry.NewStream(l.dev, nil)
	defer s.Close()
	sum, _ := ferry.AllocHost[float32](l.dev, 3, nil)
	defer sum.Close()

	for step := range 3 {
		scratch, err := ferry.AllocAsync[float32](s, 1, nil)
		if err != nil {
			log.Fatal(err)
		}
		if err := errors.Join(
			ferry.Fill(s, scratch, float32(step)),
			s.Launch(l.increment, ferry.Grid(1, 32), scratch, uint64(1)),
			ferry.Copy(s, sum.Range(step, step+1), scratch),
			scratch.Close(), // freed when the copy is done
		); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(sum.Slice())
	// Output:
	// [1 2 3]
}

// Which copies the program would wait for.
func ExampleSynchronous() {
	l := openLab()
	defer l.Close()
	s := ferry.DefaultStream(l.dev)
	there, _ := ferry.Alloc[byte](l.dev, 100)
	defer there.Close()
	locked, _ := ferry.AllocHost[byte](l.dev, 100, nil)
	defer locked.Close()
	plain := ferry.Pageable(make([]byte, 100))

	fmt.Println("from page-locked memory:", ferry.Synchronous(s, there, locked))
	fmt.Println("from a plain slice:", ferry.Synchronous(s, there, plain))
	// Output:
	// from page-locked memory: false
	// from a plain slice: true
}
