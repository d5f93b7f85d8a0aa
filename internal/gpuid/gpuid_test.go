package gpuid

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

var machine = []GPU{
	{"NVIDIA H200", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "0000:1b:00.0"},
	{"NVIDIA H200", "GPU-89330000-d72c-4106-c12f-20bd9faed9f6", "0000:43:00.0"},
	{"Tesla C2050", "", "0001:1b:00.0"},
}

// TestFind finds GPUs by the texts that tools print, and refuses those that name none or
// several.
func TestFind(t *testing.T) {
	for text, want := range map[string]int{
		machine[0].UUID: 0, machine[1].UUID: 1, "GPU-8932": 0, "gpu-8933": 1, "GPU-8932F937-D72C": 0,
		"0000:1b:00.0": 0, "00000000:1B:00.0": 0, "1b:00.0": 0, "0:1b:0": 0, "43:0.0": 1, "0001:1b:00.0": 2,
	} {
		id, ok := Parse(text)
		if !ok || !id.Named() || id.String() != text {
			t.Errorf("Parse(%q) returns %+v, %t", text, id, ok)
			continue
		}
		if got, err := id.Find(machine); err != nil || got != want {
			t.Errorf("%q is GPU %d, %v; want %d", text, got, err, want)
		}
	}
}

// TestFindRefused demands that the error for none or several lists what there is.
func TestFindRefused(t *testing.T) {
	every := []string{"cuda:0 (NVIDIA H200, GPU-8932f937", "cuda:1 (NVIDIA H200, GPU-8933", "cuda:2 (Tesla C2050, its UUID is not known, 0001:1b:00.0)"}
	for text, parts := range map[string][]string{
		"GPU-8":         {"2 GPUs", `"GPU-8"`, "add characters", every[0], every[1]},
		"GPU-7":         {"no GPU has a UUID that begins with", every[0], every[1], every[2]},
		"0000:1c:00.0":  {"no GPU has the PCI address", every[0], every[1], every[2]},
		"0000:1b:00.1":  {"no GPU has the PCI address"},
		"10000:1b:00.0": {"no GPU has the PCI address"},
	} {
		id, ok := Parse(text)
		if !ok {
			t.Errorf("Parse(%q) fails", text)
			continue
		}
		_, err := id.Find(machine)
		if !errors.Is(err, cu.ErrorInvalidDevice) {
			t.Errorf("%q: error %v, want one that wraps CUDA_ERROR_INVALID_DEVICE", text, err)
			continue
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: error %q has no %q", text, err, part)
			}
		}
		if strings.HasPrefix(text, "GPU-8") && strings.Contains(err.Error(), "cuda:2") {
			t.Errorf("%q: error %q lists a GPU that it does not name", text, err)
		}
	}
	id, _ := Parse("GPU-8")
	if _, err := id.Find(nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("without GPUs: %v", err)
	}
}

// TestParseRefused demands that other texts are no ID.
func TestParseRefused(t *testing.T) {
	for _, text := range []string{"", "0", "12", "GPU-", "GPU-xyz", "GPU", "-1", "1b", ":", "::", "1b:", ":1b:00.0", "0000:1b:00.0.0", "0000:1b:00.8", "0000:100:00.0", "0:0:20.0", "100000000:1b:00.0", "a:b:c:d", "+1:0.0", "1b:00."} {
		if id, ok := Parse(text); ok {
			t.Errorf("Parse(%q) returns %+v", text, id)
		}
	}
}
