// The command relay is a pipeline over GPUs: rank 0 sends frames on their way, each rank works on a
// frame and passes it on to the next, and the last rank has the results. Each rank has another
// frame, so all GPUs work at once. The work here adds 1 to each pixel.
//
//	go build ./examples/relay && ferry ranks -n 4 -- ./relay
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/nccl"
)

const pixels = 64 * 64 // of a frame

func main() {
	frames := flag.Int("frames", 10, "the number of frames")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *frames); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, frames int) (err error) {
	world, err := nccl.Environment()
	if errors.Is(err, nccl.ErrNoLauncher) {
		world, err = nccl.World{Size: 1}, nil
	}
	if err != nil {
		return err
	}
	gpu, err := nccl.OpenGPU(world)
	if err != nil {
		return err
	}
	defer gpu.Close()
	comm, err := nccl.Open(ctx, gpu, &nccl.Options{World: &world})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, comm.Close()) }()
	results, err := relay(ctx, comm, frames)
	if err != nil {
		comm.Abort() // the other ranks do not wait for this one
		return err
	}
	for f, got := range results {
		if want := float32(100*f + comm.Size()); got != want {
			return fmt.Errorf("frame %d has %v in its last pixel, want %v", f, got, want)
		}
	}
	if comm.Rank() == comm.Size()-1 {
		fmt.Printf("%d frames through %d ranks with %s: all right\n", frames, comm.Size(), comm.Library())
	}
	return nil
}

// relay passes frames on. The last rank returns the last pixel of each.
func relay(ctx context.Context, comm *nccl.Comm, frames int) (results []float32, err error) {
	gpu, rank, last := comm.GPU(), comm.Rank(), comm.Size()-1
	module, err := ferry.Load(gpu, []byte(kernels.PTX), nil)
	if err != nil {
		return nil, err
	}
	defer module.Close()
	increment, err := module.Kernel("increment")
	if err != nil {
		return nil, err
	}
	stream, err := ferry.NewStream(gpu, nil)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var buffers [2]*ferry.Device[float32]
	for i := range buffers {
		if buffers[i], err = ferry.Alloc[float32](gpu, pixels); err != nil {
			return nil, err
		}
		defer buffers[i].Close()
	}
	host, err := ferry.AllocHost[float32](gpu, pixels*frames, nil)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	if rank == 0 {
		all := host.Slice()
		for i := range all {
			all[i] = float32(100 * (i / pixels))
		}
	}
	// In step t this rank has frame t-rank, and sends the one before it.
	for t := rank; t <= rank+frames; t++ {
		f := t - rank
		now, before := buffers[f%2], buffers[(f+1)%2]
		var group nccl.Group
		if f < frames && rank > 0 {
			err = errors.Join(err, nccl.Recv(group.For(comm), stream, now, rank-1))
		}
		if f > 0 && rank < last {
			err = errors.Join(err, nccl.Send(group.For(comm), stream, before, rank+1))
		}
		if err = errors.Join(err, group.Submit()); err != nil {
			return nil, err
		}
		if f == frames {
			break
		}
		frame := host.Range(f*pixels, (f+1)*pixels)
		if rank == 0 {
			err = ferry.Copy(stream, now, frame)
		}
		err = errors.Join(err, stream.Launch(increment, gpu.GridStride(pixels/4), now, uint64(pixels)))
		if rank == last {
			err = errors.Join(err, ferry.Copy(stream, frame, now))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := comm.Wait(ctx, stream); err != nil || rank != last {
		return nil, err
	}
	all := host.ReadSlice()
	for f := range frames {
		results = append(results, all[(f+1)*pixels-1])
	}
	return results, nil
}
