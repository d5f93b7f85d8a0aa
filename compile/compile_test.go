package compile

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestSource compiles a kernel with the compiler of this machine.
func TestSource(t *testing.T) {
	r, err := Source(context.Background(), "saxpy.cu", []byte(`
__global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}`), nil)
	if _, missing := errors.AsType[*NotFoundError](err); missing {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(r.PTX), ".entry _Z5saxpyifPKfPf") {
		t.Errorf("the PTX has no kernel saxpy:\n%s", r.PTX)
	}
}
