// The command pytorch works with PyTorch on the same memory. Python runs in another process, because
// Go without cgo cannot hold it: the memory goes there, and comes back, as a file descriptor. Nothing
// is copied.
//
// Package dlpack sends Ferry's buffers, which become tensors of PyTorch there. Then memory that PyTorch
// has allocated becomes a buffer of Ferry, and a kernel adds 1 to it, which PyTorch sees. On the
// software GPU, which PyTorch cannot use, Python alone does what it would.
//
//	go run ./examples/libraries/pytorch
//
// The environment variable FERRY_PYTHON names another Python than python3.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/dlpack"
	"github.com/ferrygpu/ferry/kernels"
)

func main() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	text, err := run(gpu)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
}

// elements is how many the buffers and the tensor have.
const elements = 1000

// run starts Python, and shares memory in both directions.
func run(gpu *ferry.GPU) (text string, err error) {
	p, err := startPython(gpu)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	started, err := p.hear()
	if err != nil {
		return "", err
	}
	if err := give(gpu, p); err != nil {
		return "", fmt.Errorf("memory of Ferry: %w", err)
	}
	if err := take(gpu, p); err != nil {
		return "", fmt.Errorf("memory of the other process: %w", err)
	}
	return fmt.Sprintf("%s on %v\n%d elements of Ferry's memory: y = 3*x + 1 is right\n"+
		"%d elements of its memory: right, and it sees what a kernel of Ferry adds\n", started.Name, gpu, elements, elements), nil
}

// give lets Python compute y = 3*x + 1 in two buffers of Ferry. The numbers are whole, so the results
// are exact.
func give(gpu *ferry.GPU, p *python) error {
	x, y, err := two(gpu)
	if err != nil {
		return err
	}
	defer x.Close()
	defer y.Close()
	numbers, sum := make([]float32, elements), 0.0
	for i := range numbers {
		numbers[i] = float32(rand.IntN(2001) - 1000)
		sum += float64(numbers[i])
	}
	if err := errors.Join(
		ferry.Copy(gpu.DefaultStream(), x, ferry.Pageable(numbers)),
		dlpack.Send(p.conn, x, nil, nil), // waits for the copy
		dlpack.Send(p.conn, y, nil, nil),
	); err != nil {
		return err
	}
	done, err := p.hear() // y is complete
	if err != nil {
		return err
	}
	got, err := ferry.Download(y)
	if err != nil {
		return err
	}
	if done.Sum != sum {
		return fmt.Errorf("the sum of x is %v there, and %v here", done.Sum, sum)
	}
	for i, v := range got {
		if want := 3*numbers[i] + 1; v != want {
			return fmt.Errorf("element %d of y is %v, want %v", i, v, want)
		}
	}
	return nil
}

// two allocates buffers that can be shared.
func two(gpu *ferry.GPU) (x, y *ferry.Device[float32], err error) {
	if x, err = ferry.AllocVirtual[float32](gpu, elements, &ferry.VirtualOptions{Share: true}); err != nil {
		return nil, nil, err
	}
	if y, err = ferry.AllocVirtual[float32](gpu, elements, &ferry.VirtualOptions{Share: true}); err != nil {
		return nil, nil, errors.Join(err, x.Close())
	}
	return x, y, nil
}

// take makes a buffer of a tensor of Python, whose element i is 2*i, and adds 1 to each by a kernel.
func take(gpu *ferry.GPU, p *python) error {
	module, err := ferry.Load(gpu, []byte(kernels.PTX), nil)
	if err != nil {
		return err
	}
	defer module.Close()
	increment, err := module.Kernel("increment")
	if err != nil {
		return err
	}
	memory, z, err := p.receive(gpu, elements)
	if err != nil {
		return err
	}
	defer memory.Close()
	got, err := ferry.Download(z)
	if err != nil {
		return err
	}
	for i, v := range got {
		if want := 2 * float32(i); v != want {
			return fmt.Errorf("element %d is %v, want %v", i, v, want)
		}
	}
	s := gpu.DefaultStream()
	if err := errors.Join(
		s.Launch(increment, ferry.Cover(z.Len(), 256), z, uint64(z.Len())),
		s.Wait(context.Background()), // before the other process may look
		p.goOn(),
	); err != nil {
		return err
	}
	compared, err := p.hear()
	if err == nil && compared.Wrong > 0 {
		err = fmt.Errorf("%d of %d elements are wrong there after the kernel", compared.Wrong, z.Len())
	}
	return err
}
