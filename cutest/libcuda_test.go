package cutest

import (
	"os"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/libcuda"
)

// TestLibcuda runs the suite on the GPUs of this machine, or on the library that
// libcuda.LibraryVariable names. If that is a software GPU behind the C interface, the suite has the
// results of the software GPU itself. FERRY_CUTEST_HALF=1 draws half of the cases for it.
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
	soft, err := asSoft(d)
	switch {
	case err != nil:
		t.Fatal(err)
	case soft != nil && os.Getenv("FERRY_REQUIRE_GPU") == "1":
		t.Fatalf("FERRY_REQUIRE_GPU is 1, but %s is the software GPU %s", d.Path(), soft.Profile())
	case soft != nil && os.Getenv("FERRY_CUTEST_HALF") == "1":
		runDrawn(t, func(testing.TB) cu.Driver { return soft }, 2, allChecks())
	case soft != nil:
		Run(t, func(testing.TB) cu.Driver { return soft })
	default:
		Run(t, func(testing.TB) cu.Driver { return d })
	}
}
