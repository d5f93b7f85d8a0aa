package cookbook_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

func Example_driverAPI() {
	var d cu.Driver = must(softgpu.Open(softgpu.Options{})) // libcuda.Open opens NVIDIA's driver
	check(d.Init(0))                                        // cuInit
	dev := must(d.DeviceGet(0))                             // cuDeviceGet
	ctx := must(d.CtxCreate(0, dev))                        // cuCtxCreate

	module := must(d.ModuleLoadData(ctx, []byte(kernels.PTX)))       // cuModuleLoadData
	increment := must(d.ModuleGetFunction(ctx, module, "increment")) // cuModuleGetFunction

	const n = 1000
	v := must(d.MemAlloc(ctx, 4*n))           // cuMemAlloc
	check(d.MemsetD32(ctx, v, 0x3f800000, n)) // cuMemsetD32: the bits of 1.0
	params := binary.LittleEndian.AppendUint64(nil, uint64(v))
	params = binary.LittleEndian.AppendUint64(params, n)
	check(d.LaunchKernel(ctx, increment, cu.Dim3{X: 4, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, params))
	check(d.CtxSynchronize(ctx))

	host := must(d.MemHostAlloc(ctx, 4*n, 0)) // cuMemHostAlloc
	check(d.MemcpyDtoH(ctx, host, v, 4*n))    // cuMemcpyDtoH
	result := unsafe.Slice((*float32)(host), n)
	fmt.Println(result[0], result[n-1])
	check(errors.Join(d.MemFreeHost(ctx, host), d.MemFree(ctx, v), d.ModuleUnload(ctx, module), d.CtxDestroy(ctx)))
	// Output:
	// 2 2
}
