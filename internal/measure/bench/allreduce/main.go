// The command allreduce measures all-reduces as nccl-tests does: calls in a row without waits between
// them, in place, the mean of each round, and of the rounds the median. It prints bytes and
// microseconds a call. Without variables of a launcher it uses all GPUs of this process, in
// groups; with them it is one rank, and rank 0 prints. peer/allreduce.cu is the same in C++.
//
//	go run ./internal/measure/bench/allreduce
//	ferry ranks -n 2 -- allreduce
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/nccl"
)

const (
	smallest = 1 << 10
	largest  = 1 << 30
	rounds   = 7
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// rank is a rank of this process.
type rank struct {
	comm   *nccl.Comm
	stream *ferry.Stream
	memory *ferry.Device[float32]
}

func run(ctx context.Context) error {
	comms, err := open(ctx)
	if err != nil {
		return err
	}
	var ranks []rank
	for _, c := range comms {
		s, err := ferry.NewStream(c.GPU(), nil)
		if err != nil {
			return err
		}
		m, err := ferry.Alloc[float32](c.GPU(), largest/4)
		if err != nil {
			return err
		}
		ranks = append(ranks, rank{c, s, m})
	}
	how := "one process"
	if len(comms) < comms[0].Size() {
		how = "a process for each GPU"
	}
	for bytes := smallest; bytes <= largest; bytes *= 4 {
		times, err := measure(ctx, ranks, bytes)
		if err != nil {
			return err
		}
		if ranks[0].comm.Rank() == 0 {
			slices.Sort(times)
			fmt.Printf("Go\t%s\t%d\t%.2f\n", how, bytes, times[len(times)/2].Seconds()*1e6)
		}
	}
	closed := make(chan error) // NCCL's ranks close together
	for _, r := range ranks {
		go func() { closed <- r.comm.Close() }()
	}
	for range ranks {
		err = errors.Join(err, <-closed)
	}
	return err
}

// open returns the communicators of this process.
func open(ctx context.Context) ([]*nccl.Comm, error) {
	world, err := nccl.Environment()
	if errors.Is(err, nccl.ErrNoLauncher) {
		gpus, err := ferry.OpenAll("cuda")
		if err != nil {
			return nil, err
		}
		return nccl.OpenAll(ctx, gpus, nil)
	}
	if err != nil {
		return nil, err
	}
	g, err := nccl.OpenGPU(world)
	if err != nil {
		return nil, err
	}
	c, err := nccl.Open(ctx, g, &nccl.Options{World: &world})
	return []*nccl.Comm{c}, err
}

// measure returns the mean time of a call in each round.
func measure(ctx context.Context, ranks []rank, bytes int) (times []time.Duration, err error) {
	calls := 200
	if bytes > 1<<20 {
		calls = 20
	}
	var group nccl.Group
	for round := range rounds + 1 {
		began := time.Now()
		for range calls {
			for _, r := range ranks {
				var caller nccl.Caller = r.comm
				if len(ranks) > 1 {
					caller = group.For(r.comm)
				}
				m := r.memory.Range(0, bytes/4)
				if err := nccl.AllReduce(caller, r.stream, m, m, nccl.Sum); err != nil {
					return nil, err
				}
			}
			if err := group.Submit(); err != nil {
				return nil, err
			}
		}
		for _, r := range ranks {
			if err := r.comm.Wait(ctx, r.stream); err != nil {
				return nil, err
			}
		}
		if round > 0 { // the first makes connections
			times = append(times, time.Since(began)/time.Duration(calls))
		}
	}
	return times, nil
}
