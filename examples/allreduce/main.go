// The command allreduce trains a linear model with data-parallel steps, one rank for each GPU. Each
// rank has rows of its own, computes the gradient of them, and gets the average of all gradients by an
// all-reduce. So all ranks have the same weights in the end, bit by bit, and the program checks that.
// A launcher starts the ranks. Without a GPU they run on the software GPU:
//
//	go build ./examples/allreduce && ferry ranks -n 4 -- ./allreduce
//
// On machines with GPUs torchrun, mpirun, srun and Kubernetes start it: see docs/many-gpus.md.
// Started by itself it is the only rank.
//
// After a change of step.cu: go generate ./examples/allreduce.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/nccl"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind step.cu

const (
	columns = 8
	rows    = 256 // of each rank
	rate    = 0.1
)

func main() {
	steps := flag.Int("steps", 60, "the number of steps")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *steps); err != nil {
		log.Fatal(err)
	}
}

// run opens the GPU and the communicator of this process's rank, and trains.
func run(ctx context.Context, steps int) (err error) {
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
	weights, err := train(ctx, comm, steps)
	if err != nil {
		comm.Abort() // the other ranks do not wait for this one
		return err
	}
	if comm.Rank() == 0 {
		worst := float32(0)
		for j, w := range weights {
			worst = max(worst, w-truth(j), truth(j)-w)
		}
		fmt.Printf("%d ranks with %s: %d steps, largest error of a weight %.4f\n", comm.Size(), comm.Library(), steps, worst)
	}
	return nil
}

// truth is the weight of a column by which the rows are made.
func truth(j int) float32 { return float32(j) - 2.5 }

// train returns the weights of all ranks, which it has found equal.
func train(ctx context.Context, comm *nccl.Comm, steps int) ([]float32, error) {
	gpu := comm.GPU()
	kernels, err := LoadStep(gpu)
	if err != nil {
		return nil, err
	}
	defer kernels.Close()
	stream, err := ferry.NewStream(gpu, nil)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	xs, ys := data(comm.Rank())
	x, err := ferry.Upload(gpu, xs)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	y, err := ferry.Upload(gpu, ys)
	if err != nil {
		return nil, err
	}
	defer y.Close()
	weights, err := ferry.Upload(gpu, make([]float32, columns))
	if err != nil {
		return nil, err
	}
	defer weights.Close()
	gradient, err := ferry.Alloc[float32](gpu, columns)
	if err != nil {
		return nil, err
	}
	defer gradient.Close()
	one := ferry.Cover(columns, columns)
	for range steps {
		if err := kernels.Gradient(stream, one, x, y, weights, gradient, rows, columns); err != nil {
			return nil, err
		}
		if err := nccl.AllReduce(comm, stream, gradient, gradient, nccl.Avg); err != nil {
			return nil, err
		}
		if err := kernels.Step(stream, one, weights, gradient, rate, columns); err != nil {
			return nil, err
		}
	}
	return compare(ctx, comm, stream, weights)
}

// compare returns the weights, if those of all ranks are equal.
func compare(ctx context.Context, comm *nccl.Comm, stream *ferry.Stream, weights *ferry.Device[float32]) ([]float32, error) {
	all, err := ferry.Alloc[float32](comm.GPU(), columns*comm.Size())
	if err != nil {
		return nil, err
	}
	defer all.Close()
	if err := nccl.AllGather(comm, stream, all, weights); err != nil {
		return nil, err
	}
	if err := comm.Wait(ctx, stream); err != nil {
		return nil, err
	}
	got, err := ferry.Download(all)
	if err != nil {
		return nil, err
	}
	for i, w := range got {
		if w != got[i%columns] {
			return nil, fmt.Errorf("weight %d of rank %d is %v, and %v of rank 0", i%columns, i/columns, w, got[i%columns])
		}
	}
	return got[:columns], nil
}

// data makes the rows of a rank, and the results that the true weights give.
func data(rank int) (x, y []float32) {
	random := rand.New(rand.NewPCG(1, uint64(rank)))
	for range rows {
		sum := float32(0)
		for j := range columns {
			v := float32(random.NormFloat64())
			x = append(x, v)
			sum += v * truth(j)
		}
		y = append(y, sum)
	}
	return x, y
}
