//go:build !race

package ferry_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// orderLab is what the examples of order use: a GPU with one of the schedules, which starts
// queued work at once or as late as it may.
type orderLab struct {
	*ferry.GPU
	schedule  softgpu.Schedule
	a, b      *ferry.Stream // not ordered with the default stream
	host      *ferry.Host[byte]
	raw       []byte // the slice of host, from before anything was queued
	dev, ones *ferry.Device[byte]
}

// compare prints the result of a program under the schedules eager and lazy.
func compare(name string, program func(l *orderLab) any) {
	fmt.Printf("%s:", name)
	for _, s := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy} {
		l := openOrderLab(s)
		fmt.Printf(" %v %v", s, program(l))
		l.GPU.Close()
	}
	fmt.Println()
}

func openOrderLab(s softgpu.Schedule) *orderLab {
	d, err := softgpu.Open(softgpu.Options{Schedule: s})
	if err != nil {
		log.Fatal(err)
	}
	l := &orderLab{schedule: s}
	l.GPU, err = ferry.OpenDriver(d, 0)
	if err != nil {
		log.Fatal(err)
	}
	l.a, _ = ferry.NewStream(l.GPU, &ferry.StreamOptions{NonBlocking: true})
	l.b, _ = ferry.NewStream(l.GPU, &ferry.StreamOptions{NonBlocking: true})
	l.host, _ = ferry.AllocHost[byte](l.GPU, 64, nil)
	l.dev, _ = ferry.Alloc[byte](l.GPU, 64)
	l.ones, _ = ferry.Alloc[byte](l.GPU, 64)
	l.raw = l.host.Slice()
	clear(l.raw) // new memory holds anything
	ferry.Fill(l.a, l.ones, 1)
	ferry.Fill(l.a, l.dev, 0)
	l.Wait(context.Background())
	return l
}

// meanwhile stands for time in which the program does something else. An eager GPU has
// finished then, and a lazy one has not begun. The wait for the eager one makes the examples
// independent of the speed of this machine.
func (l *orderLab) meanwhile() {
	if l.schedule == softgpu.Eager {
		l.Wait(context.Background())
	}
}

// The host reads through an old slice, without a wait for the copy.
func Example_orderMissingWait() {
	compare("wrong", func(l *orderLab) any {
		ferry.Copy(l.a, l.host, l.ones)
		l.meanwhile()
		return l.raw[0]
	})
	compare("right", func(l *orderLab) any {
		ferry.Copy(l.a, l.host, l.ones)
		return l.host.Slice()[0] // waits
	})
	// Output:
	// wrong: eager 1 lazy 0
	// right: eager 1 lazy 1
}

// The host fills a staging buffer again before its first copy may have read it.
func Example_orderReusedStagingBuffer() {
	last := func(l *orderLab) any {
		ferry.Copy(l.b, l.host, l.dev)
		return l.host.Slice()[0]
	}
	compare("wrong", func(l *orderLab) any {
		l.raw[0] = 7
		ferry.Copy(l.b, l.dev, l.host)
		l.meanwhile()
		l.raw[0] = 8 // for the next round
		return last(l)
	})
	compare("right", func(l *orderLab) any {
		l.raw[0] = 7
		ferry.Copy(l.b, l.dev, l.host)
		l.host.Slice()[0] = 8
		return last(l)
	})
	// Output:
	// wrong: eager 7 lazy 8
	// right: eager 7 lazy 7
}

// An event stands for the work that was in its stream when it was last recorded.
func Example_orderWrongEvent() {
	e := func(l *orderLab) *ferry.Event {
		e, err := ferry.NewEvent(l.GPU, nil)
		if err != nil {
			log.Fatal(err)
		}
		return e
	}
	compare("too early", func(l *orderLab) any {
		e := e(l)
		l.a.Record(e)
		ferry.Copy(l.a, l.host, l.ones)
		l.meanwhile()
		e.Wait(context.Background())
		return l.raw[0]
	})
	compare("recorded again", func(l *orderLab) any {
		e := e(l)
		ferry.Copy(l.a, l.host, l.ones)
		l.a.Record(e)
		l.b.Record(e) // now it stands for the work of b
		l.meanwhile()
		e.Wait(context.Background())
		return l.raw[0]
	})
	compare("right", func(l *orderLab) any {
		e := e(l)
		ferry.Copy(l.a, l.host, l.ones)
		l.a.Record(e)
		e.Wait(context.Background())
		return l.raw[0]
	})
	// Output:
	// too early: eager 1 lazy 0
	// recorded again: eager 1 lazy 0
	// right: eager 1 lazy 1
}

// Another stream waits for the event than the one that copies.
func Example_orderWrongStream() {
	program := func(waits func(l *orderLab) *ferry.Stream) func(*orderLab) any {
		return func(l *orderLab) any {
			e, _ := ferry.NewEvent(l.GPU, nil)
			ferry.Copy(l.a, l.dev, l.ones)
			l.a.Record(e)
			l.meanwhile()
			waits(l).WaitEvent(e)
			ferry.Copy(l.b, l.host, l.dev)
			return l.host.Slice()[0]
		}
	}
	compare("wrong", program(func(l *orderLab) *ferry.Stream { return l.GPU.DefaultStream() }))
	compare("right", program(func(l *orderLab) *ferry.Stream { return l.b }))
	// Output:
	// wrong: eager 1 lazy 0
	// right: eager 1 lazy 1
}

// A non-blocking stream does not wait for the default stream.
func Example_orderNonBlocking() {
	program := func(stream func(l *orderLab) *ferry.Stream) func(*orderLab) any {
		return func(l *orderLab) any {
			ferry.Copy(l.GPU.DefaultStream(), l.dev, l.ones)
			l.meanwhile()
			ferry.Copy(stream(l), l.host, l.dev)
			return l.host.Slice()[0]
		}
	}
	compare("wrong", program(func(l *orderLab) *ferry.Stream { return l.a }))
	compare("right", program(func(l *orderLab) *ferry.Stream {
		s, _ := ferry.NewStream(l.GPU, nil)
		return s
	}))
	// Output:
	// wrong: eager 1 lazy 0
	// right: eager 1 lazy 1
}

// Memory is freed in the order of a stream that does not use it. Close of a buffer orders the
// free after all uses, so the example calls the driver itself. It prints whether the fill found
// its memory freed.
func Example_orderEarlyFree() {
	program := func(frees func(l *orderLab, uses, other cu.Stream) cu.Stream) func(*orderLab) any {
		return func(l *orderLab) any {
			d, ctx := l.Driver(), l.CUContext()
			s, _ := d.StreamCreate(ctx, cu.StreamNonBlocking)
			other, _ := d.StreamCreate(ctx, cu.StreamNonBlocking)
			p, _ := d.MemAllocAsync(ctx, 64, s)
			d.StreamSynchronize(ctx, s)
			d.MemsetD8Async(ctx, p, 1, 64, s)
			l.meanwhile()
			by := frees(l, s, other)
			d.MemFreeAsync(ctx, p, by)
			d.StreamSynchronize(ctx, by)
			return errors.Is(d.StreamSynchronize(ctx, s), cu.ErrorIllegalAddress)
		}
	}
	compare("wrong", program(func(l *orderLab, _, other cu.Stream) cu.Stream { return other }))
	compare("right", program(func(_ *orderLab, uses, _ cu.Stream) cu.Stream { return uses }))
	// Output:
	// wrong: eager false lazy true
	// right: eager false lazy false
}
