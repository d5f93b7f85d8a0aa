package explain

import (
	"encoding/binary"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/doctor"
)

// TestPageAt: entries of a page map, and what the system does not show.
func TestPageAt(t *testing.T) {
	size := uint64(os.Getpagesize())
	var entries []byte
	for _, e := range []uint64{0, 1<<63 | 0x1234, 1 << 63, 1<<62 | 0x99} {
		entries = binary.LittleEndian.AppendUint64(entries, e)
	}
	tree := fstest.MapFS{"proc/self/pagemap": {Data: entries}}
	for _, c := range []struct {
		addr     uint64
		physical string
		text     string
	}{
		{5, "", "no page is mapped here"},
		{size + 5, hex(0x1234*size + 5), "is mapped"},
		{2*size + 5, "", "shown to root alone"},
		{3 * size, "", "no page is mapped here"},
		{4 * size, "", "no page of this process"},
		{1<<63 | 5, "", "does not show"},
	} {
		if at, text := pageAt(tree, c.addr); at != c.physical || !strings.Contains(text, c.text) {
			t.Errorf("%#x: got %q and %q, want %q and %q", c.addr, at, text, c.physical, c.text)
		}
	}
	if at, text := pageAt(fstest.MapFS{}, 5); at != "" || !strings.Contains(text, "does not show") {
		t.Errorf("without a page map: got %q and %q", at, text)
	}
}

// TestNodeText: the node is that of the mapping at or below the address.
func TestNodeText(t *testing.T) {
	tree := fstest.MapFS{"proc/self/numa_maps": {Data: []byte(
		"1000 default file=/bin/x mapped=1 N0=1 kernelpagesize_kB=4\n\nzz bad\n9000 bind:1 anon=3 N0=1 N1=2 kernelpagesize_kB=4\na000 default\n")}}
	for addr, want := range map[uint64]string{0x500: "", 0x1500: "host memory of NUMA node 0", 0x9abc: "host memory of NUMA node 0, 1", 0xa001: ""} {
		if got := nodeText(tree, addr); got != want {
			t.Errorf("%#x: got %q, want %q", addr, got, want)
		}
	}
	if got := nodeText(fstest.MapFS{}, 5); got != "" {
		t.Errorf("without the file: got %q", got)
	}
}

// TestLinkAndIOMMU: the sentences about a machine, and about one that shows nothing.
func TestLinkAndIOMMU(t *testing.T) {
	for _, c := range []struct {
		h           doctor.Hardware
		link, iommu string
	}{
		{doctor.Hardware{Node: -1}, "does not show the link", "does not show the GPU"},
		{doctor.Hardware{Address: "a", Generation: 1, Width: 16, MaxGeneration: 5, MaxWidth: 16, Node: 1, Virtual: true}, "Gen1 x16 now, Gen5 x16 at most; the GPU is at NUMA node 1", "its host may have one"},
		{doctor.Hardware{Address: "a", Node: -1}, "does not show the link", "none: the bus address is"},
		{doctor.Hardware{Address: "a", Group: "7", Mode: "identity"}, "", "group 7, pass-through"},
		{doctor.Hardware{Address: "a", Group: "7", Mode: "DMA-FQ"}, "", "group 7 translates (DMA-FQ)"},
		{doctor.Hardware{Address: "a", Group: "7"}, "", "mode is not shown"},
	} {
		if got := linkText(&c.h); !strings.Contains(got, c.link) {
			t.Errorf("%+v: got %q, want %q", c.h, got, c.link)
		}
		if got := iommuText(&c.h); !strings.Contains(got, c.iommu) {
			t.Errorf("%+v: got %q, want %q", c.h, got, c.iommu)
		}
	}
}

// TestWithoutAddresses: texts of another run lose its addresses and indices.
func TestWithoutAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"PDE4[0], PTE[1]: 4 KiB page of system memory at 0x8000001000": "2 table entries: 4 KiB page of system memory",
		"PML4[0]: invalid": "1 table entries: invalid",
		"a read of bus address 0x12, and its data; PCI Express":       "a read, and its data; PCI Express",
		"a posted write to bus address 0x12":                          "a posted write",
		"0x12 of host memory, within the link's time":                 "host memory, within the link's time",
		"serves the fault: moves 64 KiB to the device and maps them":  "serves the fault: moves 64 KiB to the device and maps them",
		"zero-copy, nothing cached; the least sure figure is a guess": "zero-copy, nothing cached; the least sure figure is a guess",
	} {
		if got := withoutAddresses(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestWithoutIOMMU: predictions of a machine whose IOMMU does not translate leave out the
// IOMMU's step, and its cost in the sum. Steps of other paths, and those that are not
// predictions, are left out as well.
func TestWithoutIOMMU(t *testing.T) {
	shadow := []Step{
		{Path: "p", Place: "run", CostNs: cost(9000), Source: Predicted},
		{Path: "p", Place: "GPU MMU", CostNs: cost(100), Source: Predicted, Address: "0x1000"},
		{Path: "p", Place: "IOMMU", CostNs: cost(30), Source: Predicted},
		{Path: "p", Place: "driver", CostNs: cost(5), Source: Manual},
		{Path: "q", Place: "GPU MMU", CostNs: cost(7), Source: Predicted},
		{Path: "p", Place: "in all", CostNs: cost(130), Source: Predicted},
	}
	for _, c := range []struct {
		h    doctor.Hardware
		want map[string]float64
	}{
		{doctor.Hardware{Address: "a"}, map[string]float64{"GPU MMU": 100, "in all": 100}},
		{doctor.Hardware{Address: "a", Group: "7", Mode: "DMA-FQ"}, map[string]float64{"GPU MMU": 100, "IOMMU": 30, "in all": 130}},
	} {
		l := &lab{shadow: shadow, hw: c.h, r: &Report{}}
		l.fromShadow("p")
		got := map[string]float64{}
		for _, s := range l.r.Steps {
			got[s.Place] = *s.CostNs
			if s.Address != "" {
				t.Errorf("%+v: the step %s has the address %s of another run", c.h, s.Place, s.Address)
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.h, got, c.want)
		}
	}
	if *shadow[5].CostNs != 130 {
		t.Error("the steps of the other run have changed")
	}
}
