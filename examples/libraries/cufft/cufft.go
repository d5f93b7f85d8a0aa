package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/examples/libraries/clib"
)

// cuFFT is the library with one of its plans. The functions are those of cufft.h.
type cuFFT struct {
	plan int32

	create            func(plan *int32) int32
	destroy           func(plan int32) int32
	getVersion        func(version *int32) int32
	setAutoAllocation func(plan, auto int32) int32
	makePlanMany      func(plan, rank int32, n, inEmbed *int32, inStride, inDist int32, outEmbed *int32, outStride, outDist, kind, batch int32,
		work *uintptr) int32
	setWorkArea func(plan int32, work cu.DevicePtr) int32
	setStream   func(plan int32, stream cu.Stream) int32
	execC2C     func(plan int32, in, out cu.DevicePtr, d direction) int32
}

// noPlan is CUFFT_PLAN_NULL.
const noPlan = -1

// library is cuFFT of CUDA 13 or 12, whose functions are the same.
var library = clib.Library{
	Names:    []string{"libcufft.so.12", "libcufft.so.11"},
	Variable: "FERRY_CUFFT",
	Package:  "nvidia-cufft",
}

// newCUFFT opens cuFFT. The plan is made later.
func newCUFFT() (*cuFFT, error) {
	l := &cuFFT{plan: noPlan}
	_, err := library.Open(map[string]any{
		"cufftCreate":            &l.create,
		"cufftDestroy":           &l.destroy,
		"cufftGetVersion":        &l.getVersion,
		"cufftSetAutoAllocation": &l.setAutoAllocation,
		"cufftMakePlanMany":      &l.makePlanMany,
		"cufftSetWorkArea":       &l.setWorkArea,
		"cufftSetStream":         &l.setStream,
		"cufftExecC2C":           &l.execC2C,
	})
	return l, err
}

// Plan makes a plan without memory of its own, so that Ferry can own it.
func (l *cuFFT) Plan(n, batch int) (work int, err error) {
	switch most := max(n, batch); {
	case l.plan != noPlan:
		return 0, errors.New("plan: there is a plan already")
	case most > math.MaxInt32:
		return 0, fmt.Errorf("plan: a size of %d is more than an int of C", most)
	}
	if err := failed("cufftCreate", l.create(&l.plan)); err != nil {
		return 0, err
	}
	if err := failed("cufftSetAutoAllocation", l.setAutoAllocation(l.plan, 0)); err != nil {
		return 0, err
	}
	const c2c = 0x29 // CUFFT_C2C
	length, bytes := int32(n), uintptr(0)
	status := l.makePlanMany(l.plan, 1, &length, nil, 1, length, nil, 1, length, c2c, int32(batch), &bytes)
	return int(bytes), failed("cufftMakePlanMany", status)
}

func (l *cuFFT) SetWorkArea(p cu.DevicePtr) error {
	return failed("cufftSetWorkArea", l.setWorkArea(l.plan, p))
}

func (l *cuFFT) SetStream(h cu.Stream) error {
	return failed("cufftSetStream", l.setStream(l.plan, h))
}

func (l *cuFFT) ExecC2C(in, out cu.DevicePtr, d direction) error {
	return failed("cufftExecC2C", l.execC2C(l.plan, in, out, d))
}

func (l *cuFFT) Uses() []ferry.Use { return nil }

func (l *cuFFT) Version() string {
	var v int32
	if l.getVersion(&v) != 0 {
		return "cuFFT"
	}
	return fmt.Sprintf("cuFFT %d.%d.%d", v/1000, v/100%10, v%100)
}

func (l *cuFFT) Destroy() error {
	if l.plan == noPlan {
		return nil
	}
	plan := l.plan
	l.plan = noPlan
	return failed("cufftDestroy", l.destroy(plan))
}

// results are the names of cufftResult, for which the library has no function.
var results = map[int32]string{
	1: "CUFFT_INVALID_PLAN", 2: "CUFFT_ALLOC_FAILED", 3: "CUFFT_INVALID_TYPE", 4: "CUFFT_INVALID_VALUE", 5: "CUFFT_INTERNAL_ERROR",
	6: "CUFFT_EXEC_FAILED", 7: "CUFFT_SETUP_FAILED", 8: "CUFFT_INVALID_SIZE", 9: "CUFFT_UNALIGNED_DATA", 11: "CUFFT_INVALID_DEVICE",
	13: "CUFFT_NO_WORKSPACE", 14: "CUFFT_NOT_IMPLEMENTED", 16: "CUFFT_NOT_SUPPORTED", 17: "CUFFT_MISSING_DEPENDENCY",
	18: "CUFFT_NVRTC_FAILURE", 19: "CUFFT_NVJITLINK_FAILURE", 20: "CUFFT_NVSHMEM_FAILURE",
}

// failed returns the error of a function that returned a result.
func failed(function string, result int32) error {
	switch name := results[result]; {
	case result == 0:
		return nil
	case name == "":
		return fmt.Errorf("%s: cufftResult %d", function, result)
	default:
		return fmt.Errorf("%s: %s", function, name)
	}
}
