//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

func TestLaunchKernelEx(t *testing.T) {
	f, d := newFake(t)
	var params []byte
	var attrs []cu.LaunchAttribute
	f.on("cuFuncGetParamInfo", func([]uintptr) cu.Result { return cu.ErrorNotSupported }) // an old driver; only cooperative launches ask
	f.on("cuLaunchKernelEx", func(a []uintptr) cu.Result {
		c := at[launchConfig](a[0])
		if c.grid != (cu.Dim3{X: 1, Y: 2, Z: 3}) || c.block != (cu.Dim3{X: 4, Y: 5, Z: 6}) || c.sharedMemBytes != 7 || c.stream != 8 || a[1] != 0xf || a[2] != 0 {
			t.Errorf("arguments %#x, %+v", a[:3], c)
		}
		if (c.attrs == nil) != (c.numAttrs == 0) {
			t.Errorf("%d attributes at %p", c.numAttrs, c.attrs)
		}
		attrs = slices.Clone(unsafe.Slice(c.attrs, c.numAttrs))
		params = launched(t, a[3])
		return cu.Success
	})
	for _, want := range [][]cu.LaunchAttribute{
		nil, {}, {cu.CooperativeLaunch()}, {cu.ClusterLaunch(cu.Dim3{X: 2, Y: 1, Z: 4}), cu.ProgrammaticLaunch(), cu.LaunchPriority(-5)},
	} {
		config := &cu.LaunchConfig{Grid: cu.Dim3{X: 1, Y: 2, Z: 3}, Block: cu.Dim3{X: 4, Y: 5, Z: 6}, SharedMemBytes: 7, Stream: 8, Attrs: want}
		for _, p := range [][]byte{nil, {1, 2, 3}, bytes.Repeat([]byte{9}, 4000)} {
			if err := d.LaunchKernelEx(1, config, 0xf, p); err != nil || !bytes.Equal(params, p) || !slices.Equal(attrs, want) {
				t.Errorf("parameters %v, attributes %v, %v, want %v and %v", params, attrs, err, p, want)
			}
		}
	}
	if err := d.LaunchKernelEx(1, nil, 0xf, nil); err != cu.ErrorInvalidValue {
		t.Errorf("error %v, want CUDA_ERROR_INVALID_VALUE", err)
	}
	f.on("cuLaunchKernelEx", func([]uintptr) cu.Result { return cu.ErrorCooperativeLaunchTooLarge })
	if err := d.LaunchKernelEx(1, new(cu.LaunchConfig), 0xf, nil); err != cu.ErrorCooperativeLaunchTooLarge {
		t.Errorf("error %v, want the driver's", err)
	}
}

// TestLaunchKernelExPointers demands that a cooperative launch passes a pointer to each
// parameter, if the driver tells where they are.
func TestLaunchKernelExPointers(t *testing.T) {
	f, d := newFake(t)
	places := [][2]uintptr{{0, 8}, {8, 2}, {12, 4}}
	f.on("cuFuncGetParamInfo", func(a []uintptr) cu.Result {
		if a[0] != 0xf || a[1] >= uintptr(len(places)) {
			return cu.ErrorInvalidValue
		}
		*at[uintptr](a[2]), *at[uintptr](a[3]) = places[a[1]][0], places[a[1]][1]
		return cu.Success
	})
	calls := 0
	f.on("cuLaunchKernelEx", func(a []uintptr) cu.Result {
		calls++
		pointers := unsafe.Slice(at[*byte](a[2]), len(places))
		if a[3] != 0 || *pointers[0] != 10 || *pointers[1] != 18 || *pointers[2] != 22 {
			t.Errorf("pointers to %d, %d, %d, extra %#x", *pointers[0], *pointers[1], *pointers[2], a[3])
		}
		return cu.Success
	})
	params := []byte{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25}
	together := &cu.LaunchConfig{Attrs: []cu.LaunchAttribute{cu.ProgrammaticLaunch(), cu.CooperativeLaunch()}}
	if err := d.LaunchKernelEx(1, together, 0xf, params); err != nil || calls != 1 {
		t.Errorf("%d calls, error %v", calls, err)
	}
	if err := d.LaunchKernelEx(1, together, 0xf, params[:15]); err != cu.ErrorInvalidValue || calls != 1 {
		t.Errorf("too few bytes: %d calls, error %v, want CUDA_ERROR_INVALID_VALUE", calls, err)
	}
}

// TestNodePointers demands that a node that takes no packed buffer gets pointers.
func TestNodePointers(t *testing.T) {
	f, d := newFake(t)
	f.on("cuFuncGetParamInfo", func(a []uintptr) cu.Result {
		if a[1] > 1 {
			return cu.ErrorInvalidValue
		}
		*at[uintptr](a[2]), *at[uintptr](a[3]) = 4*a[1], 4
		return cu.Success
	})
	calls := 0
	f.on("cuGraphExecKernelNodeSetParams", func(a []uintptr) cu.Result {
		n := at[kernelNodeParams](a[2])
		if calls++; n.extra != nil {
			return cu.ErrorInvalidValue
		}
		if p := unsafe.Slice((**byte)(unsafe.Pointer(n.kernelParams)), 2); *p[0] != 1 || *p[1] != 5 {
			t.Errorf("pointers to %d and %d", *p[0], *p[1])
		}
		return cu.Success
	})
	grid := cu.Dim3{X: 1, Y: 1, Z: 1}
	if err := d.GraphExecKernelNodeSetParams(1, 0xe, 0xd, 0xf, grid, grid, 0, []byte{1, 2, 3, 4, 5, 6, 7, 8}); err != nil || calls != 2 {
		t.Errorf("%d calls, error %v", calls, err)
	}
	if err := d.GraphExecKernelNodeSetParams(1, 0xe, 0xd, 0xf, grid, grid, 0, []byte{1, 2, 3, 4}); err != cu.ErrorInvalidValue || calls != 3 {
		t.Errorf("too few bytes: %d calls, error %v", calls, err)
	}
}

// TestLaunchAttributes checks the bytes of the attributes, which are those of C.
func TestLaunchAttributes(t *testing.T) {
	for _, c := range []struct {
		attr cu.LaunchAttribute
		want []uint32 // the first words
	}{
		{cu.CooperativeLaunch(), []uint32{2, 0, 1, 0}},
		{cu.ClusterLaunch(cu.Dim3{X: 2, Y: 3, Z: 4}), []uint32{4, 0, 2, 3, 4, 0}},
		{cu.ProgrammaticLaunch(), []uint32{6, 0, 1, 0}},
		{cu.LaunchPriority(-2), []uint32{8, 0, 0xfffffffe, 0}},
	} {
		if got := unsafe.Slice((*uint32)(unsafe.Pointer(&c.attr)), len(c.want)); !slices.Equal(got, c.want) {
			t.Errorf("attribute %d is %x, want %x", c.attr.ID, got, c.want)
		}
	}
}

func TestMaxPotentialBlockSize(t *testing.T) {
	f, d := newFake(t)
	f.on("cuOccupancyMaxPotentialBlockSizeWithFlags", func(a []uintptr) cu.Result {
		if want := []uintptr{0xf, 0, 1 << 33, 96, 1}; !slices.Equal(a[2:7], want) {
			t.Errorf("arguments %#x, want %#x", a[2:7], want)
		}
		store(a[0], int32(264))
		store(a[1], int32(96))
		return cu.Success
	})
	grid, block, err := d.OccupancyMaxPotentialBlockSize(1, 0xf, 1<<33, 96, cu.OccupancyDisableCachingOverride)
	if grid != 264 || block != 96 || err != nil {
		t.Errorf("%d blocks of %d threads, %v, want 264 of 96", grid, block, err)
	}
	f.on("cuOccupancyMaxPotentialBlockSizeWithFlags", func([]uintptr) cu.Result { return cu.ErrorInvalidValue })
	if _, _, err := d.OccupancyMaxPotentialBlockSize(1, 0xf, 0, 0, 0); !errors.Is(err, cu.ErrorInvalidValue) {
		t.Errorf("error %v, want the driver's", err)
	}
}
