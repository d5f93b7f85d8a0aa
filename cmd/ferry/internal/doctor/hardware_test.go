package doctor

import (
	"reflect"
	"testing"
)

// TestReadHardware: what the files and NVML show of a GPU, and nothing of one that is not
// there.
func TestReadHardware(t *testing.T) {
	m := h200()
	m.dualSocket()
	m.link(h200Path+"/iommu_group", "../../../kernel/iommu_groups/17")
	m.set("sys/kernel/iommu_groups/17/type", "DMA-FQ\n")
	m.set(h200Path+"/current_link_speed", "16.0 GT/s PCIe\n")
	want := Hardware{
		Address: h200Address, Generation: 4, Width: 16, MaxGeneration: 5, MaxWidth: 16, Node: 1, Group: "17", Mode: "DMA-FQ", Virtual: true,
		Windows: []Window{{0, 0xc0000000, 16 << 20}, {1, 0x4000000000, 256 << 30}},
	}
	if got := ReadHardware(m.tree, nil, "00000000:00:06.0"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want.Generation = 5
	if got := ReadHardware(m.tree, m, h200Address); !reflect.DeepEqual(got, want) {
		t.Errorf("with NVML: got %+v, want %+v", got, want)
	}
	if got := ReadHardware(m.tree, m, "0000:99:00.0"); !reflect.DeepEqual(got, Hardware{Node: -1}) {
		t.Errorf("no such GPU: got %+v", got)
	}
}

// TestUntranslated: without a group, or with one that passes through, addresses stay.
func TestUntranslated(t *testing.T) {
	for _, c := range []struct {
		h    Hardware
		want bool
	}{
		{Hardware{}, false}, {Hardware{Address: "a"}, true}, {Hardware{Address: "a", Virtual: true}, false},
		{Hardware{Address: "a", Group: "1", Mode: "identity"}, true}, {Hardware{Address: "a", Group: "1", Mode: "DMA"}, false},
	} {
		if got := c.h.Untranslated(); got != c.want {
			t.Errorf("%+v: %v", c.h, got)
		}
	}
}
