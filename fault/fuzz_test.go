package fault_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
)

// FuzzParse parses texts of FERRY_FAULT. What is refused is an invalid value; what is
// accepted names a call or a seed.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"seed:7", "cuMemAlloc:3:CUDA_ERROR_OUT_OF_MEMORY", "cuLaunchKernel:1:CUDA_ERROR_LAUNCH_FAILED", "seed:", "a:b:c", "cuInit:0:CUDA_SUCCESS", strings.Repeat(":", 9)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := fault.Parse(text)
		switch {
		case err != nil && (!errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), fault.Variable)):
			t.Errorf("error %v", err)
		case err == nil && o.Every == 0 && (o.Call == "" || o.Nth == 0 || o.Code == 0):
			t.Errorf("%q: %+v", text, o)
		}
	})
}
