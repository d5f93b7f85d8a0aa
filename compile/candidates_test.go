package compile

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/dl/dltest"
)

// TestNextLibrary: an NVRTC and an nvJitLink that cannot be used hide none that can. The error
// names each with its reason.
func TestNextLibrary(t *testing.T) {
	if !dl.Supported {
		t.Skip(dl.ErrPlatform)
	}
	t.Setenv(NVRTCVariable, "")
	t.Setenv(JitLinkVariable, "")
	bad, good := t.TempDir(), t.TempDir()
	old := dltest.Library{Functions: []dltest.Function{{Name: "nvrtcVersion", Stores: []int32{10, 1}}}}
	old.Write(t, bad, "libnvrtc.so.13")
	empty := dltest.Library{Functions: []dltest.Function{{Name: "nvJitLinkVersion"}}}
	empty.Write(t, bad, "libnvJitLink.so.13")
	t.Setenv("LD_LIBRARY_PATH", bad)
	if _, err := findNVRTC(); err != nil && (!strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), "NVRTC 10.1 is too old")) {
		t.Errorf("NVRTC alone: %v", err)
	}
	if _, err := findJitLink(); err != nil && (!strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), "has no function nvJitLinkCreate")) {
		t.Errorf("nvJitLink alone: %v", err)
	}

	works := dltest.Library{Functions: []dltest.Function{{Name: "nvrtcVersion", Stores: []int32{13, 7}},
		{Name: "nvrtcGetNumSupportedArchs", Stores: []int32{1}}, {Name: "nvrtcGetSupportedArchs", Stores: []int32{80}}}}
	works.Write(t, good, "libnvrtc.so.12")
	var linker dltest.Library
	for _, name := range []string{"Create", "AddData", "Complete", "GetLinkedCubin", "Destroy"} {
		linker.Functions = append(linker.Functions, dltest.Function{Name: "__nvJitLink" + name + "_12_0", Result: 3})
	}
	linker.Write(t, good, "libnvJitLink.so.12")
	t.Setenv("LD_LIBRARY_PATH", bad+":"+good)
	if c, err := findNVRTC(); err != nil || c.name() != "NVRTC 13.7" {
		t.Errorf("NVRTC: %v, %v", c, err)
	}
	lib, err := findJitLink()
	if err != nil {
		t.Fatal(err)
	}
	if r, err := lib("__nvJitLinkDestroy_12_0"); err != nil || int32(r) != 3 {
		t.Errorf("nvJitLink: %d, %v", int32(r), err)
	}
}
