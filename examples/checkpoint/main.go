// The command checkpoint loads a network from a safetensors file onto all GPUs, and runs it on each.
// The file is read once, whatever the number of GPUs. Its weights are bf16, and the GPUs get float32.
// Without a GPU it runs on the software GPU, here on two:
//
//	FERRY_DEVICE='soft:h200*2' go run ./examples/checkpoint
//
// With no argument it makes the file first, with weights from the memory of a GPU.
//
// After a change of layer.cu: go generate ./examples/checkpoint.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind layer.cu

// widths are those of the network's layers: each takes the values of the one before.
var widths = []int{64, 256, 256, 10}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

// run loads the file onto all GPUs, and prints what the network makes of one input on each.
func run(ctx context.Context, path string) (err error) {
	gpus, err := ferry.OpenAll("")
	if err != nil {
		return err
	}
	for _, g := range gpus {
		defer func() { err = errors.Join(err, g.Close()) }()
	}
	if path == "" {
		dir, err := os.MkdirTemp("", "checkpoint-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "network.safetensors")
		if err := save(ctx, gpus[0], path); err != nil {
			return err
		}
	}
	results, err := runAll(ctx, gpus, path)
	for i, y := range results {
		fmt.Printf("%v: %v\n", gpus[i], y)
	}
	return err
}

// runAll loads the network of a file onto GPUs, and returns its values for one input on each.
func runAll(ctx context.Context, gpus []*ferry.GPU, path string) (results [][]float32, err error) {
	c, err := checkpoint.Open(path) // reads the header
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	stream, err := ferry.NewStream(gpus[0], nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	weights, err := checkpoint.Load(ctx, stream, c, &checkpoint.Options{To: checkpoint.F32, Also: gpus[1:]})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, weights.Close()) }()
	if err := stream.Wait(ctx); err != nil { // the streams of other GPUs read the weights, too
		return nil, err
	}
	for _, g := range gpus {
		y, err := infer(ctx, g, weights.On(g), input())
		if err != nil {
			return nil, err
		}
		results = append(results, y)
	}
	return results, nil
}

// infer runs the network on the GPU that has the weights.
func infer(ctx context.Context, g *ferry.GPU, weights *checkpoint.Loaded, x []float32) (y []float32, err error) {
	kernels, err := LoadLayer(g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, kernels.Close()) }()
	stream, err := ferry.NewStream(g, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	in, err := ferry.Upload(g, x)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for i := 1; i < len(widths); i++ {
		w, err := checkpoint.Tensor[float32](weights, weightName(i))
		if err != nil {
			return nil, err
		}
		b, err := checkpoint.Tensor[float32](weights, biasName(i))
		if err != nil {
			return nil, err
		}
		out, err := ferry.Alloc[float32](g, widths[i])
		if err != nil {
			return nil, err
		}
		defer out.Close()
		if err := kernels.Layer(stream, ferry.Cover(widths[i], 128), w, b, in, out, int32(widths[i]), int32(widths[i-1])); err != nil {
			return nil, err
		}
		in = out
	}
	if err := stream.Wait(ctx); err != nil {
		return nil, err
	}
	return ferry.Download(in)
}

func weightName(layer int) string { return fmt.Sprintf("layers.%d.weight", layer) }
func biasName(layer int) string   { return fmt.Sprintf("layers.%d.bias", layer) }

// save writes the network to a file, from the memory of a GPU.
func save(ctx context.Context, g *ferry.GPU, path string) (err error) {
	stream, err := ferry.NewStream(g, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	var all []checkpoint.SaveTensor
	for i := 1; i < len(widths); i++ {
		for _, t := range []struct {
			name  string
			shape []int64
		}{
			{weightName(i), []int64{int64(widths[i]), int64(widths[i-1])}},
			{biasName(i), []int64{int64(widths[i])}},
		} {
			n := int(t.shape[0])
			for _, m := range t.shape[1:] {
				n *= int(m)
			}
			d, err := ferry.Upload(g, bf16(values(t.name, n)))
			if err != nil {
				return err
			}
			defer d.Close()
			all = append(all, checkpoint.SaveTensor{Name: t.name, DType: checkpoint.BF16, Shape: t.shape, Memory: ferry.View[byte](d)})
		}
	}
	return checkpoint.Save(ctx, path, stream, all, nil)
}

// values are the weights of a tensor: multiples of 1/8 that depend on its name, so that sums of a few
// hundred products are exact.
func values(name string, n int) []float32 {
	x := uint32(2166136261)
	for _, letter := range []byte(name) {
		x = (x ^ uint32(letter)) * 16777619
	}
	all := make([]float32, n)
	for i := range all {
		x = x*1664525 + 1013904223
		all[i] = float32(int(x>>29)-3) / 8
	}
	return all
}

// input is what the network gets.
func input() []float32 { return values("input", widths[0]) }

// bf16 returns the bits of values as bf16, which has the upper half of a float32.
func bf16(all []float32) []uint16 {
	return slices.Collect(func(yield func(uint16) bool) {
		for _, x := range all {
			if !yield(uint16(math.Float32bits(x) >> 16)) {
				return
			}
		}
	})
}
