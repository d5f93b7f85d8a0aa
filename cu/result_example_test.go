package cu_test

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

func ExampleResult() {
	err := fmt.Errorf("copy 4096 bytes to the device: %w", cu.ErrorIllegalAddress)

	fmt.Println(err)
	fmt.Println(errors.Is(err, cu.ErrorIllegalAddress))
	if r, ok := errors.AsType[cu.Result](err); ok && r.Sticky() {
		fmt.Println("the context is lost:", r.Name())
	}
	// Output:
	// copy 4096 bytes to the device: CUDA_ERROR_ILLEGAL_ADDRESS: a kernel or copy used an invalid address; the context is lost (compute-sanitizer finds the place)
	// true
	// the context is lost: CUDA_ERROR_ILLEGAL_ADDRESS
}

// A driver newer than this version of Ferry can return codes for which cu has no
// constant.
func ExampleResult_Name() {
	fmt.Println(cu.ErrorInvalidValue.Name())
	fmt.Println(cu.Result(12345).Name())
	// Output:
	// CUDA_ERROR_INVALID_VALUE
	// CUDA_ERROR_12345
}

func ExampleDeviceAttributes() {
	for _, a := range cu.DeviceAttributes()[:3] {
		fmt.Println(int(a), a)
	}
	// Output:
	// 1 CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
	// 2 CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X
	// 3 CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y
}
