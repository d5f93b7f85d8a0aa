package libcuda_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// misuses are wrong calls, for which a C library may crash. Each runs in a process of
// its own and must get an error from the driver.
var misuses = []struct {
	name string
	do   func(h *hot) error
}{
	{"launch without parameters", func(h *hot) error {
		return h.LaunchKernel(h.ctx, h.scale, one, one, 0, h.stream, nil)
	}},
	{"reset primary context", func(h *hot) error {
		if err := h.DevicePrimaryCtxReset(h.gpu.dev); err != nil {
			return nil
		}
		_, err := h.MemAlloc(h.ctx, 4096)
		return err
	}},
	{"double free", func(h *hot) error {
		p, err := h.MemAlloc(h.ctx, 4096)
		h.must(err)
		h.must(h.MemFree(h.ctx, p))
		return h.MemFree(h.ctx, p)
	}},
	{"double free of host memory", func(h *hot) error {
		p, err := h.MemHostAlloc(h.ctx, 4096, 0)
		h.must(err)
		h.must(h.MemFreeHost(h.ctx, p))
		return h.MemFreeHost(h.ctx, p)
	}},
	{"copy to an address of nothing", func(h *hot) error {
		return h.MemcpyHtoD(h.ctx, 0x10, h.host, 16)
	}},
	{"copy description without addresses", func(h *hot) error {
		return h.Memcpy2D(h.ctx, &cu.Memcpy2D{SrcMemoryType: cu.MemoryTypeDevice, DstMemoryType: cu.MemoryTypeDevice, WidthInBytes: 16, Height: 2})
	}},
}

const misuseVariable = "FERRY_TEST_MISUSE"

// TestGPUMisuse demands an error for each, and no crash.
func TestGPUMisuse(t *testing.T) {
	gputest.Driver(t)
	for _, m := range misuses {
		t.Run(m.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestMisuseChild$", "-test.v")
			cmd.Env = append(os.Environ(), misuseVariable+"="+m.name)
			out, err := cmd.CombinedOutput()
			_, answer, ok := strings.Cut(string(out), "answer: ")
			answer, _, _ = strings.Cut(answer, "\n")
			if !ok {
				t.Fatalf("the process ended without a result: %v\n%.2000s", err, out)
			}
			if !strings.Contains(answer, "CUDA_ERROR_") {
				t.Errorf("result %q, want an error", answer)
			}
			t.Log(answer)
		})
	}
}

// TestMisuseChild makes the wrong call, in a process started by TestGPUMisuse.
func TestMisuseChild(t *testing.T) {
	name := os.Getenv(misuseVariable)
	if name == "" {
		t.Skip("runs as a child of TestGPUMisuse")
	}
	h := newHot(t)
	for _, m := range misuses {
		if m.name == name {
			fmt.Printf("answer: %v\n", m.do(h))
			os.Exit(0)
		}
	}
	t.Fatalf("no misuse %q", name)
}
