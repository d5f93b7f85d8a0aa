package cutest

import (
	"os"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/libcuda"
)

// TestLibcuda runs the suite on the GPUs of this machine.
func TestLibcuda(t *testing.T) {
	d, err := libcuda.Open()
	if err == nil {
		err = d.Init(0)
	}
	if err != nil {
		if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
			t.Fatalf("FERRY_REQUIRE_GPU is 1, but: %v", err)
		}
		t.Skipf("no GPU here: %v", err)
	}
	Run(t, func(testing.TB) cu.Driver { return d })
}
