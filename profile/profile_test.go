package profile

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

func TestShippedProfilesLoadAndAnswer(t *testing.T) {
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != name {
			t.Errorf("%s.json has name %q", name, p.Name)
		}
		known := map[string]bool{}
		for _, a := range cu.DeviceAttributes() {
			known[strings.TrimPrefix(a.String(), "CU_DEVICE_ATTRIBUTE_")] = true
		}
		for a := range p.Attributes {
			if !known[a] {
				t.Errorf("%s: attribute %s is not CUDA's", name, a)
			}
		}
		if v, ok := p.Attribute(cu.DeviceAttributeWarpSize); !ok || v != 32 {
			t.Errorf("%s: warp size %d, %v; want 32", name, v, ok)
		}
	}
}

func TestProfileRefused(t *testing.T) {
	good, err := shipped.ReadFile("h200.json")
	if err != nil {
		t.Fatal(err)
	}
	edit := func(path []string, value any) []byte {
		var doc map[string]any
		if err := json.Unmarshal(good, &doc); err != nil {
			t.Fatal(err)
		}
		m := doc
		for _, k := range path[:len(path)-1] {
			m = m[k].(map[string]any)
		}
		m[path[len(path)-1]] = value
		out, _ := json.Marshal(doc)
		return out
	}
	for want, text := range map[string][]byte{
		`schema "x"`:            edit([]string{"schema"}, "x"),
		`unknown field "speed"`: edit([]string{"speed"}, 1),
		"link.tags has source":  edit([]string{"link", "tags", "source"}, "hearsay"),
		"copy.dtod: point 1":    edit([]string{"copy", "dtod", "points"}, []Point{{5, 5}, {4, 6}}),
		"memory_bytes":          edit([]string{"memory_bytes", "value"}, 0),
		"unexpected EOF":        good[:100],
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if _, err := Named("h201"); err == nil || !strings.Contains(err.Error(), "fermi-c2050, h200") {
		t.Errorf("got %v, want the names that there are", err)
	}
}

func TestCurve(t *testing.T) {
	c := Curve{Points: []Point{{10, 100}, {20, 200}, {40, 300}}}
	for bytes, want := range map[float64]float64{0: 100, 10: 100, 15: 150, 20: 200, 30: 250, 40: 300, 60: 400} {
		if got := c.Ns(bytes); got != want {
			t.Errorf("Ns(%v) = %v, want %v", bytes, got, want)
		}
	}
	l := Line(1000, 50e9, "")
	if got, want := l.Ns(1<<30), 1000+float64(1<<30)/50; math.Abs(got-want) > 1e-3 {
		t.Errorf("line: got %v, want %v", got, want)
	}
	if got := (Curve{}).Ns(5); got != 0 {
		t.Errorf("empty curve: got %v, want 0", got)
	}
}
