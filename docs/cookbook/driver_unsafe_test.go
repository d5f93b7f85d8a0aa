package cookbook_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

func Example_driverAPI() {
	var d cu.Driver // libcuda.Open opens NVIDIA's driver
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	check(d.Init(0))           // cuInit
	dev, err := d.DeviceGet(0) // cuDeviceGet
	check(err)
	ctx, err := d.CtxCreate(0, dev) // cuCtxCreate
	check(err)
	module, err := d.ModuleLoadData(ctx, []byte(kernels.PTX)) // cuModuleLoadData
	check(err)
	increment, err := d.ModuleGetFunction(ctx, module, "increment") // cuModuleGetFunction
	check(err)

	const n = 1000
	v, err := d.MemAlloc(ctx, 4*n) // cuMemAlloc
	check(err)
	check(d.MemsetD32(ctx, v, 0x3f800000, n)) // cuMemsetD32: the bits of 1.0
	params := binary.LittleEndian.AppendUint64(nil, uint64(v))
	params = binary.LittleEndian.AppendUint64(params, n)
	check(d.LaunchKernel(ctx, increment, cu.Dim3{X: 4, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, params))
	check(d.CtxSynchronize(ctx))

	host, err := d.MemHostAlloc(ctx, 4*n, 0) // cuMemHostAlloc
	check(err)
	check(d.MemcpyDtoH(ctx, host, v, 4*n)) // cuMemcpyDtoH
	result := unsafe.Slice((*float32)(host), n)
	fmt.Println(result[0], result[n-1])
	check(errors.Join(d.MemFreeHost(ctx, host), d.MemFree(ctx, v), d.ModuleUnload(ctx, module), d.CtxDestroy(ctx)))
	// Output:
	// 2 2
}
