// Increments numbers in page-locked memory by a kernel, through gorgonia.org/cu, a binding with cgo.
package main

import (
	_ "embed"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

//go:embed increment.ptx
var ptx string

// Unsafe: The binding takes addresses, and copies before its calls return.

const n = 1000

func main() {
	device := must(cu.GetDevice(0))
	context := must(device.MakeContext(cu.SchedAuto))
	defer context.Destroy()
	kernel := must(must(cu.LoadData(ptx)).Function("increment"))

	numbers := make([]float32, n)
	for i := range numbers {
		numbers[i] = 41
	}
	bytes := int64(unsafe.Sizeof(numbers[0])) * n
	memory := must(cu.MemAlloc(bytes))
	check(cu.MemcpyHtoD(memory, unsafe.Pointer(&numbers[0]), bytes))
	count := uint64(n)
	args := []unsafe.Pointer{unsafe.Pointer(&memory), unsafe.Pointer(&count)}
	check(kernel.LaunchAndSync((n+255)/256, 1, 1, 256, 1, 1, 0, cu.NoStream, args))
	check(cu.MemcpyDtoH(unsafe.Pointer(&numbers[0]), memory, bytes))
	check(cu.MemFree(memory))

	sum := float32(0)
	for _, x := range numbers {
		sum += x
	}
	fmt.Printf("%.1f\n", sum/n)
}

func must[T any](v T, err error) T { check(err); return v }

func check(err error) {
	if err != nil {
		panic(err)
	}
}
