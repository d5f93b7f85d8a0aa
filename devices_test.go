package ferry_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

func TestDevices(t *testing.T) {
	t.Setenv("FERRY_LIBCUDA", "")
	all, err := ferry.Devices()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range all {
		g, err := ferry.Open(d.Open)
		if err != nil {
			t.Errorf("%s is listed, but Open fails: %v", d.Open, err)
			continue
		}
		major, err := g.Attribute(cu.DeviceAttributeComputeCapabilityMajor)
		_, total, memErr := g.MemInfo()
		if err != nil || memErr != nil {
			t.Fatal(err, memErr)
		}
		if g.Name() != d.Name || g.Emulated() != d.Emulated || major != d.Major || uint64(total) > d.Memory {
			t.Errorf("%s: the list has %+v; opened, it is %v with capability %d and %d bytes", d.Open, d, g, major, total)
		}
		version := must(g.Driver().DriverGetVersion())(t)
		if named := len(d.UUID) == len("GPU-00000000-0000-0000-0000-000000000000"); named != (version >= 11040) || d.PCIAddress == "" {
			t.Errorf("%s: UUID %q, PCI address %q, driver of CUDA %d", d.Open, d.UUID, d.PCIAddress, version)
		}
		if seen[d.UUID] && d.UUID != "" {
			t.Errorf("%s: UUID %s is that of another device", d.Open, d.UUID)
		}
		seen[d.UUID] = true
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range profile.Names() {
		if !slices.ContainsFunc(all, func(d ferry.DeviceInfo) bool { return d.Open == "soft:"+name }) {
			t.Errorf("soft:%s is not listed", name)
		}
	}
}

func TestDevicesOfBrokenDriver(t *testing.T) {
	if os.Getenv("FERRY_DEVICES_CHILD") != "" {
		all, err := ferry.Devices()
		fmt.Printf("%d %v\n", len(all), err)
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDevicesOfBrokenDriver$")
	cmd.Env = append(os.Environ(), "FERRY_DEVICES_CHILD=1", "FERRY_LIBCUDA=/nowhere/libcuda.so.1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d list the NVIDIA GPUs: ", len(profile.Names())); !strings.HasPrefix(string(out), want) || !strings.Contains(string(out), "/nowhere/libcuda.so.1") {
		t.Errorf("got %q, want %q and the path", out, want)
	}
}
