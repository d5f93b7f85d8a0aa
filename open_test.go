package ferry_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestOpenNames: each form of a name opens what the comment of Open says.
func TestOpenNames(t *testing.T) {
	fermi := filepath.Join(t.TempDir(), "mine.json")
	text := must(os.ReadFile("profile/fermi-c2050.json"))(t)
	check(t, os.WriteFile(fermi, text, 0o600))
	for _, c := range []struct {
		name, profile, text string
		ordinals            []int
	}{
		{"soft", "h200", "soft:h200 (software, predicts NVIDIA H200)", []int{0}},
		{"soft:h200", "h200", "soft:h200 (software, predicts NVIDIA H200)", []int{0}},
		{"soft:fermi-c2050", "fermi-c2050", "soft:fermi-c2050 (software, predicts Tesla C2050)", []int{0}},
		{"soft:" + fermi, "fermi-c2050", "soft:fermi-c2050 (software, predicts Tesla C2050)", []int{0}},
		{"soft:h200*2", "h200", "soft:h200*2 device 0 (software, predicts NVIDIA H200)", []int{0, 1}},
		{"soft*3", "h200", "soft:h200*3 device 0 (software, predicts NVIDIA H200)", []int{0, 1, 2}},
	} {
		all, err := ferry.OpenAll(c.name)
		if err != nil {
			t.Errorf("OpenAll(%q): %v", c.name, err)
			continue
		}
		if len(all) != len(c.ordinals) {
			t.Errorf("OpenAll(%q) returns %d GPUs, want %d", c.name, len(all), len(c.ordinals))
		}
		for i, g := range all {
			if int(g.Device()) != c.ordinals[i] || !g.Emulated() || g.Profile() != c.profile || g.Fallback() != nil {
				t.Errorf("OpenAll(%q)[%d] is device %d of %q, emulated %t, fallback %v", c.name, i, int(g.Device()), g.Profile(), g.Emulated(), g.Fallback())
			}
			closeAll(t, g)
		}
		g := must(ferry.Open(c.name))(t)
		if got := g.String(); got != c.text {
			t.Errorf("Open(%q) is %q, want %q", c.name, got, c.text)
		}
		closeAll(t, g)
	}
}

// TestOpenNamesRefused: the error for a bad name says what is wrong with it.
func TestOpenNamesRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts []string
	}{
		{"soft:", []string{"no profile", "fermi-c2050", "h200"}},
		{"soft:gtx9000", []string{`open "soft:gtx9000"`, `no profile "gtx9000"`, "fermi-c2050, gh200, h100-pcie, h200"}},
		{"soft:nowhere.json", []string{"nowhere.json", "no such file"}},
		{"soft:h200*0", []string{`"0" is not a number of devices`}},
		{"soft:h200*", []string{"not a number of devices"}},
		{"soft:h200*-1", []string{"not a number of devices"}},
		{"soft:h200*1000", []string{"1000 devices"}},
		{"softly", []string{"no such device", "cuda:1", "soft:h200"}},
		{"Cuda", []string{"no such device"}},
		{"cuda:", []string{"not a device number"}},
		{"cuda:x", []string{`"x" is not a device number`}},
		{"cuda:-1", []string{"not a device number"}},
	} {
		g, err := ferry.Open(c.name)
		if err == nil {
			t.Errorf("Open(%q) returns %v, want an error", c.name, g)
			closeAll(t, g)
			continue
		}
		wantError(t, err, err, c.parts...)
		if _, err := ferry.OpenAll(c.name); err == nil {
			t.Errorf("OpenAll(%q) returns no error", c.name)
		}
	}
}

// TestOpenWithoutGPU: without a driver library, "cuda" is an error, and "" opens the software
// GPU, whose Fallback says why.
func TestOpenWithoutGPU(t *testing.T) {
	t.Setenv(libcuda.LibraryVariable, "/nonexistent/libcuda.so.1")
	t.Setenv(ferry.DeviceVariable, "")
	for _, name := range []string{"cuda", "cuda:0"} {
		g, err := ferry.Open(name)
		if err == nil && !g.Emulated() {
			closeAll(t, g)
			t.Skip("the driver library was opened by another test")
		}
		wantError(t, err, err, "open "+`"`+name+`"`, "/nonexistent/libcuda.so.1", `"soft" opens the software GPU`)
	}
	g := must(ferry.Open(""))(t)
	defer closeAll(t, g)
	if !g.Emulated() {
		t.Fatalf(`Open("") is %v`, g)
	}
	if _, ok := errors.AsType[*libcuda.OpenError](g.Fallback()); !ok {
		t.Errorf("Fallback is %v, want a *libcuda.OpenError", g.Fallback())
	}
}

// fallbackHint returns the line on standard error with a reason.
func fallbackHint(reason string) string {
	return "ferry: no NVIDIA GPU could be opened" + reason + ", using soft:h200 (software, predicts NVIDIA H200): times are predictions" +
		" (FERRY_DEVICE=cuda reports what was tried; FERRY_DEVICE=soft or FERRY_QUIET=1 suppresses this line)\n"
}

// TestFallbackHint: when Open("") falls back to the software GPU, the process says so on standard
// error once. It does not with FERRY_QUIET=1, and when the software GPU was asked for.
func TestFallbackHint(t *testing.T) {
	if os.Getenv("FERRY_HINT_CHILD") != "" {
		for range 2 {
			closeAll(t, must(ferry.Open(""))(t))
		}
		all := must(ferry.OpenAll(""))(t)
		closeAll(t, all[0])
		os.Exit(len(all))
	}
	hint := fallbackHint(": /nonexistent/libcuda.so.1: cannot open shared object file: No such file or directory")
	for _, c := range []struct{ device, quiet, want string }{
		{"", "", hint},
		{"", "0", hint},
		{"", "1", ""},
		{"soft", "", ""},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFallbackHint$")
		cmd.Env = append(os.Environ(), "FERRY_HINT_CHILD=1", libcuda.LibraryVariable+"=/nonexistent/libcuda.so.1",
			ferry.DeviceVariable+"="+c.device, "FERRY_QUIET="+c.quiet)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%+v: %v, want exit status 1", c, err)
		}
		if got := stderr.String(); got != c.want {
			t.Errorf("%s=%q FERRY_QUIET=%q: standard error is %q, want %q", ferry.DeviceVariable, c.device, c.quiet, got, c.want)
		}
	}
}

// TestOpenVariable: Open("") opens what FERRY_DEVICE names.
func TestOpenVariable(t *testing.T) {
	t.Setenv(ferry.DeviceVariable, "soft:fermi-c2050")
	g := must(ferry.Open(""))(t)
	if got := g.Profile(); got != "fermi-c2050" {
		t.Errorf("Open(\"\") with %s set emulates %q", ferry.DeviceVariable, got)
	}
	closeAll(t, g)
	t.Setenv(ferry.DeviceVariable, "sofa")
	_, err := ferry.Open("")
	wantError(t, err, cu.ErrorInvalidValue, "FERRY_DEVICE=sofa")
}

// TestOpenDriver opens a device by its ordinal. A nil driver and bad ordinals are refused.
func TestOpenDriver(t *testing.T) {
	_, err := ferry.OpenDriver(nil, 0)
	wantError(t, err, cu.ErrorInvalidValue, "nil")
	d := softDriver(t, "h200", 2, softgpu.Eager)
	for _, ordinal := range []int{-1, 2, 1 << 40} {
		_, err := ferry.OpenDriver(d, ordinal)
		wantError(t, err, cu.ErrorInvalidDevice, "the driver has 2")
	}
	g := must(ferry.OpenDriver(d, 1))(t)
	opened, _ := cu.As[*softgpu.Driver](g.Driver()) // FERRY_CHECK wraps it
	if int(g.Device()) != 1 || opened != d || g.Context() == 0 {
		t.Errorf("device %d, context %d", int(g.Device()), g.Context())
	}
	closeAll(t, g)
}
