package info

import (
	"testing"
	"testing/fstest"
)

func TestSystemLink(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	devices := fstest.MapFS{
		"0000:0a:00.0/current_link_speed": file("32.0 GT/s PCIe"),
		"0000:0a:00.0/current_link_width": file("16"),
		"0000:0b:00.0/current_link_speed": file("2.5 GT/s"),
		"0000:0b:00.0/current_link_width": file("0"),
		"0000:0c:00.0/current_link_speed": file("Unknown"),
		"0000:0c:00.0/current_link_width": file("255?"),
	}
	for busID, want := range map[string]string{
		"0000:0A:00.0":     "PCIe 5.0 x16, as it runs now",
		"00000000:0A:00.0": "PCIe 5.0 x16, as it runs now", // the form of NVIDIA's other tools
		"0000:0B:00.0":     "unknown",
		"0000:0C:00.0":     "unknown",
		"0000:0D:00.0":     "unknown",
		"":                 "unknown",
		"../../../etc":     "unknown",
	} {
		if got := systemLink(devices, busID).text(); got != want {
			t.Errorf("%q: got %q, want %q", busID, got, want)
		}
	}
	slow := systemLink(devices, "0000:0B:00.0")
	if slow.Generation == nil || *slow.Generation != 1 || slow.Lanes != nil {
		t.Errorf("got %v", slow)
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 49152: "48 KiB", 150109880320: "139.8 GiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestDeviceLine(t *testing.T) {
	profile := "h200"
	for _, c := range []struct {
		device Device
		want   string
	}{
		{Device{Name: "NVIDIA H200", Opened: "cuda:0"}, "device: cuda:0 (NVIDIA H200), hardware: times are measured"},
		{Device{Name: "NVIDIA H200", Opened: "soft:h200", Emulated: true, Profile: &profile}, "device: soft:h200, emulated: times are predicted (profile h200: NVIDIA H200)"},
	} {
		if got := c.device.Line(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
