package cookbook_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

func Example_errors() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	module := must(ferry.Load(gpu, []byte(kernels.PTX), nil))
	defer module.Close()
	fill := must(module.Kernel("fill"))
	v := must(ferry.Alloc[uint32](gpu, 10))
	defer v.Close()
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()

	// A wrong configuration is refused by the call.
	err := s.Launch(fill, ferry.Cover(10, 2048), v, uint32(7), uint64(10))
	fmt.Println(errors.Is(err, cu.ErrorInvalidValue))
	// A fault of the kernel is reported by a later call that waits.
	err = s.Launch(fill, ferry.Cover(10, 32), cu.DevicePtr(0x10), uint32(7), uint64(10))
	fmt.Println("launched:", err)
	err = s.Wait(context.Background())
	fmt.Println(errors.Is(err, cu.ErrorIllegalAddress))
	code, _ := errors.AsType[cu.Result](err)
	fmt.Println(code)
	// Output:
	// true
	// launched: <nil>
	// true
	// CUDA_ERROR_ILLEGAL_ADDRESS: a kernel or copy used an invalid address; the context is lost (compute-sanitizer finds the place)
}

func Example_vectorAddition() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	module := must(ferry.Load(gpu, []byte(kernels.PTX), nil))
	defer module.Close()
	add := must(module.Kernel("vector_add"))
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()
	const n = 1000
	launch := func(a, b, c ferry.Memory[float32]) error {
		return s.Launch(add, ferry.Cover(n, 256), a, b, c, uint64(n))
	}
	var device [3]*ferry.Device[float32]
	for i := range device {
		device[i] = must(ferry.Alloc[float32](gpu, n))
		defer device[i].Close()
	}
	// copied adds vectors that are copied to the device, from any memory.
	copied := func(a, b, c ferry.Memory[float32]) error {
		return errors.Join(
			ferry.Copy(s, ferry.Memory[float32](device[0]), a), ferry.Copy(s, ferry.Memory[float32](device[1]), b),
			launch(device[0], device[1], device[2]),
			ferry.Copy(s, c, ferry.Memory[float32](device[2])))
	}
	// write writes 1, 2 or 0 times the number of each element.
	write := func(v []float32, vector int) {
		for i := range v {
			v[i] = float32(i * []int{1, 2, 0}[vector])
		}
	}
	host := func(o *ferry.HostOptions) (v [3]*ferry.Host[float32]) {
		for i := range v {
			v[i] = must(ferry.AllocHost[float32](gpu, n, o))
			write(v[i].Slice(), i)
		}
		return v
	}
	report := func(kind string, c []float32) { fmt.Println(kind, c[1], c[n-1]) }

	p := [3][]float32{make([]float32, n), make([]float32, n), make([]float32, n)}
	for i := range p {
		write(p[i], i)
	}
	check(copied(ferry.Pageable(p[0]), ferry.Pageable(p[1]), ferry.Pageable(p[2])))
	report("pageable", p[2])

	v := host(nil)
	check(copied(v[0], v[1], v[2]))
	report("pinned", v[2].Slice())

	w := host(&ferry.HostOptions{WriteCombined: true})
	check(copied(w[0], w[1], v[2]))
	report("write-combined", v[2].Slice())

	z := host(&ferry.HostOptions{Mapped: true})
	check(launch(z[0], z[1], z[2]))
	report("zero-copy", z[2].Slice())

	var m [3]*ferry.Managed[float32]
	for i := range m {
		m[i] = must(ferry.AllocManaged[float32](gpu, n, nil))
		write(m[i].Slice(), i)
	}
	check(launch(m[0], m[1], m[2]))
	report("managed", m[2].Slice())
	for i := range m {
		check(errors.Join(v[i].Close(), w[i].Close(), z[i].Close(), m[i].Close()))
	}
	// Output:
	// pageable 3 2997
	// pinned 3 2997
	// write-combined 3 2997
	// zero-copy 3 2997
	// managed 3 2997
}

func Example_incrementMapped() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	module := must(ferry.Load(gpu, []byte(kernels.PTX), nil))
	defer module.Close()
	increment := must(module.Kernel("increment"))
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()
	const n = 1 << 16
	a := must(ferry.AllocHost[float32](gpu, n, &ferry.HostOptions{Mapped: true}))
	defer a.Close()
	values := a.Slice()
	for i := range values {
		values[i] = float32(i)
	}
	check(s.Launch(increment, ferry.Cover(n, 256), a.Pointer(), uint64(n))) // cudaHostGetDevicePointer
	check(s.Wait(context.Background()))                                     // an address does not say what is in flight
	wrong := 0
	for i, v := range values {
		if v != float32(i+1) {
			wrong++
		}
	}
	fmt.Println(n, "elements,", wrong, "wrong")
	// Output:
	// 65536 elements, 0 wrong
}
