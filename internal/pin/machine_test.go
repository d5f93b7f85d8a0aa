package pin

import (
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/ferrygpu/ferry/internal/room"
)

// files returns a file system of texts.
func files(texts map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range texts {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

// TestReadMachine: what Linux says is read, and what it does not say is unknown.
func TestReadMachine(t *testing.T) {
	m := ReadMachine(files(map[string]string{
		"proc/meminfo": "MemTotal:       100 kB\nMemAvailable:   64 kB\n",
		"sys/kernel/mm/transparent_hugepage/enabled":        "always [madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "33554432\n",
		"sys/devices/system/node/online":                    "0,2-3\n",
		"sys/devices/system/node/node0/cpulist":             "0-2,8\n",
		"sys/devices/system/node/node2/cpulist":             "\n",
		"sys/devices/system/node/node3/cpulist":             "4\n",
	}))
	want := &Machine{Available: 64 << 10, Group: room.Group{Limit: Unknown, Left: Unknown}, Huge: true, HugeBytes: 32 << 20,
		Nodes: []Node{{0, []int{0, 1, 2, 8}}, {2, nil}, {3, []int{4}}}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, want %+v", m, want)
	}
	if m := ReadMachine(files(map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"})); m.Huge {
		t.Error("huge pages on a machine that does not allow them")
	}
	if m := ReadMachine(files(nil)); !reflect.DeepEqual(m, UnknownMachine()) {
		t.Errorf("without files: got %+v, want %+v", m, UnknownMachine())
	}
}

// TestNodeOfDevice: the node is found whatever the case of the id.
func TestNodeOfDevice(t *testing.T) {
	root := files(map[string]string{"sys/bus/pci/devices/0000:3b:00.0/numa_node": "1\n", "sys/bus/pci/devices/0000:0a:00.0/numa_node": "-1\n"})
	for id, want := range map[string]int{"0000:3B:00.0": 1, "0000:0A:00.0": AnyNode, "0000:ff:00.0": AnyNode, "": AnyNode} {
		if got := NodeOfDevice(root, id); got != want {
			t.Errorf("%q: node %d, want %d", id, got, want)
		}
	}
}

// TestHasOnly: all memory is on a node that is the only one, and on node 0 of a machine that
// names none.
func TestHasOnly(t *testing.T) {
	for _, c := range []struct {
		nodes []Node
		id    int
		want  bool
	}{{nil, 0, true}, {nil, 1, false}, {nil, AnyNode, false}, {[]Node{{ID: 2}}, 2, true}, {[]Node{{ID: 2}}, 0, false}, {[]Node{{ID: 0}, {ID: 1}}, 0, false}} {
		m := Machine{Nodes: c.nodes}
		if got := m.HasOnly(c.id); got != c.want {
			t.Errorf("node %d of %v: %v, want %v", c.id, c.nodes, got, c.want)
		}
	}
}
