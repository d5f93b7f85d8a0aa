package libcuda_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestGPUErrorsHaveTheDriversLines: the error of a call on a GPU has the driver's words, from CUDA 13.0 on.
func TestGPUErrorsHaveTheDriversLines(t *testing.T) {
	g := newGPU(t)
	if version, err := g.DriverGetVersion(); err != nil || version < 13000 {
		t.Skipf("driver for CUDA %d, error %v", version, err)
	}
	p, err := g.MemAlloc(g.ctx, 4096)
	g.must(err)
	defer func() { g.must(g.MemFree(g.ctx, p)) }()
	err = g.MemcpyDtoD(g.ctx, p, 0, 16)
	if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "the driver says: ") {
		t.Errorf("a copy from address 0: %v", err)
	}
}
