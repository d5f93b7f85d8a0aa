package profile

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/hostile"
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

// edited returns the H200's profile with one value changed, or removed if it is nil.
func edited(t *testing.T, path string, value any) []byte {
	t.Helper()
	good, err := shipped.ReadFile("h200.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(good, &doc); err != nil {
		t.Fatal(err)
	}
	keys := strings.Split(path, ".")
	m := doc
	for _, k := range keys[:len(keys)-1] {
		m = m[k].(map[string]any)
	}
	m[keys[len(keys)-1]] = value
	if value == nil {
		delete(m, keys[len(keys)-1])
	}
	out, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestProfileRefused(t *testing.T) {
	for _, c := range []struct {
		path  string
		value any
		where string // the field that the error names
		words string
	}{
		{"schema", "x", "schema", `found the text "x", want "ferry.profile/2"`},
		{"schema", 2, "schema", "found 2"},
		{"speed", 1, "speed", "no such field: a profile has schema, name"},
		{"link.speed", 1, "link.speed", "no such field: link has pcie_generation"},
		{"name", nil, "name", "missing, want a text"},
		{"title", "", "title", "is empty, want the machine's title"},
		{"link", nil, "link", "missing, want an object"},
		{"link.payload_bytes_per_s", nil, "link.payload_bytes_per_s", `missing, want {"value": a number of bytes/s, "source"`},
		{"link.payload_bytes_per_s.value", nil, "link.payload_bytes_per_s.value", "missing, want a number of bytes/s"},
		{"link.payload_bytes_per_s.value", "fast", "link.payload_bytes_per_s.value", `found the text "fast", want a number of bytes/s`},
		{"link.payload_bytes_per_s.value", 0, "link.payload_bytes_per_s.value", "found 0, want a number of bytes/s from 1e+06 to 1e+18"},
		{"link.round_trip_ns.value", -1, "link.round_trip_ns.value", "found -1, want a number of ns from 1e-06 to 1e+12, or 0"},
		{"link.round_trip_ns", 5, "link.round_trip_ns", `found 5, want {"value": a number of ns`},
		{"link.tags.source", "hearsay", "link.tags.source", `"hearsay" is not one of "sources"`},
		{"link.tags.source", []int{1}, "link.tags.source", "found a list, want a text"},
		{"memory_bytes.value", 0, "memory_bytes.value", "an integer of bytes from 1048576 to 70368744177664"},
		{"memory_bytes.value", 1e300, "memory_bytes.value", "is not within"},
		{"sources.h200.confidence", "sure", "sources.h200.confidence", `found "sure", want one of ["measured" "datasheet" "reported" "derived" "guess"]`},
		{"sources.h200.text", "", "sources.h200.text", "want where the numbers come from"},
		{"sources.h200", "measured here", "sources.h200", `found the text "measured here", want an object`},
		{"attributes.WARP_SIZE.value", 64, "attributes.WARP_SIZE.value", "want 32"},
		{"attributes.INTEGRATED.value", 0.5, "attributes.INTEGRATED.value", "want an integer"},
		{"attributes.CAN_FLY", map[string]any{"value": 1, "source": "h200"}, "attributes.CAN_FLY", "no device attribute CU_DEVICE_ATTRIBUTE_CAN_FLY"},
		{"copy.dtod.points", []Point{{5, 5}, {4, 6}}, "copy.dtod.points[1]", "4 bytes in 6 ns do not rise from the point before, 5 bytes in 5 ns"},
		{"copy.dtod.points", []Point{{-5, 5}}, "copy.dtod.points[0]", "no negative"},
		{"host.page_bytes.value", 5000, "host.page_bytes.value", "want 4096 or 65536 bytes"},
		{"staging.block_bytes.value", 0, "staging.block_bytes.value", "found 0, want an integer of bytes from 512 to"},
		{"staging.slots.value", 1.5, "staging.slots.value", "found 1.5, want an integer from 1 to 1024"},
		{"kernel.memory_bytes_per_s.value", 1e-300, "kernel.memory_bytes_per_s.value", "found 1e-300, want a number of bytes/s from 1e+06"},
		{"kernel.warp_instructions_per_s.value", 1e-9, "kernel.warp_instructions_per_s.value", "found 1e-09, want a number of 1/s"},
		{"kernel.cache_bytes_per_s", map[string]any{"value": 1, "source": "h200"}, "kernel.cache_bytes_per_s.value", "to 1e+18, or 0"},
		{"calls.launch_ns.value", 1e13, "calls.launch_ns.value", "to 1e+12"},
		{"link.duplex_cost.value", 1.5, "link.duplex_cost.value", "from 1e-06 to 1, or 0"},
		{"link.tags.value", 1e-320, "link.tags.value", "found 1e-320, want a number from 1 to 1e+06, or 0"},
		{"link.header_bytes.value", 1e-7, "link.header_bytes.value", "from 1e-06 to 4096, or 0"},
		{"calls.query_ns.value", 0, "calls.query_ns.value", "from 1 to 1e+12"},
		{"tuning.pin.max_registration_bytes.value", 0, "tuning.pin.max_registration_bytes.value", "from 2097152 to"},
		{"tuning.pin.shards_per_processor.value", 0, "tuning.pin.shards_per_processor.value", "from 1 to 1024"},
		{"tuning.pipeline.max_staged_bytes.value", 2, "tuning.pipeline.max_staged_bytes.value", "from 512 to"},
		{"tuning.wait.spin_ns.value", 1e11, "tuning.wait.spin_ns.value", "to 1e+10"},
		{"copy.dtod.points", []Point{{1e-320, 5}}, "copy.dtod.points[0]", "none between 0 and 1e-06"},
		{"link.peer_access.value", 0.5, "link.peer_access.value", "an integer from 0 to 1"},
		{"attributes.MULTIPROCESSOR_COUNT.value", 0, "attributes.MULTIPROCESSOR_COUNT.value", "from 1 to 4096"},
		{"attributes.CLOCK_RATE.value", -1, "attributes.CLOCK_RATE.value", "from 1 to"},
		{"reserved_bytes.value", 1 << 40, "reserved_bytes.value", "want less than memory_bytes"},
		{"stream_priority.least.value", -6, "stream_priority.least.value", "want at least the greatest priority"},
		{"driver_version.value", 13, "driver_version.value", "from 1000 to"},
		{"copy.dtod.points", []Point{{0, 5}, {1, 2000}}, "copy.dtod.points[1]", "rises by more than 1000 ns for each byte"},
		{"copy.dtod.points", []Point{{0, 5}, {1e15, 1e15 + 1}}, "copy.dtod.points[1]", "at most 1e+15 ns"},
		{"copy.dtod.points", 7, "copy.dtod.points", "found 7, want a list"},
		{"copy.dtod.source", nil, "copy.dtod.source", "missing, want a text"},
	} {
		_, err := Parse(edited(t, c.path, c.value))
		e, ok := errors.AsType[*FieldError](err)
		switch {
		case !ok:
			t.Errorf("%s = %v: got %v, want a FieldError", c.path, c.value, err)
		case e.Path != c.where || !strings.Contains(e.Problem, c.words) || e.Line < 1 || e.Column < 1:
			t.Errorf("%s = %v: got %v, want %s and %q", c.path, c.value, e, c.where, c.words)
		}
	}
	if _, err := Named("h201"); err == nil || !strings.Contains(err.Error(), "h200, h200-cc, jetson-tx2") {
		t.Errorf("got %v, want a list of the shipped profiles", err)
	}
}

// TestCheck: a profile that a program has changed is refused like a text, all errors at once and
// without a position. A field that may be left out may be zero.
func TestCheck(t *testing.T) {
	p, err := Named("h200")
	if err != nil || p.Check() != nil {
		t.Fatal(err, p.Check())
	}
	p.Tuning, p.Kernel.Latency, p.Copy.PageableBusy = Tuning{}, Number{}, Curve{}
	if err := p.Check(); err != nil {
		t.Errorf("without what may be left out: %v", err)
	}
	p.Link.Tags.Value = math.NaN()
	p.Tuning.Wait.Spin.Value = -1
	p.Attributes["CLOCK_RATE"] = Number{Value: math.Inf(1)}
	p.Copy.HtoH.Points = []Point{{0, 1}, {1, math.NaN()}}
	err = p.Check()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"profile h200: attributes.CLOCK_RATE.value: found +Inf, want an integer from 1 to", "\nlink.tags.value: found NaN, want a number from 1 to 1e+06, or 0",
		"copy.htoh.points[1]: found 1 bytes and NaN ns", "tuning.wait.spin_ns.value: found -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := (*Profile)(nil).Check(); err == nil {
		t.Error("no profile: no error")
	}
}

func TestBrokenTextHasPosition(t *testing.T) {
	good, _ := shipped.ReadFile("h200.json")
	for want, text := range map[string]string{
		"line 5, column 11: unexpected EOF":              string(good[:91]),
		"line 2, column 12: invalid character":           "{\n \"schema\": nonsense}",
		"line 1, column 5: more text after the document": "{} {}",
		"field \"a\" occurs twice":                       `{"a": 1, "a": 2}`,
		"unexpected EOF":                                 "",
		"nested more than 12 deep":                       strings.Repeat("[", 1000),
		"the document (line 1, column 1): found a list":  "[]",
		"found null, want an object":                     "null",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: got %v, want an error with %q", text, err, want)
		}
	}
}

// TestPositionIsTheField checks that the position in an error is that of the field.
func TestPositionIsTheField(t *testing.T) {
	text := edited(t, "link.round_trip_ns.value", -1)
	_, err := Parse(text)
	e, ok := errors.AsType[*FieldError](err)
	if !ok {
		t.Fatal(err)
	}
	line := strings.Split(string(text), "\n")[e.Line-1]
	if got := line[e.Column-1:]; got != "-1" {
		t.Errorf("line %d, column %d is %q, want -1", e.Line, e.Column, got)
	}
}

func TestManyErrorsAtOnce(t *testing.T) {
	text := string(edited(t, "link", nil))
	text = strings.Replace(text, `"schema": "ferry.profile/2"`, `"schema": "ferry.profile/2", "speed": 1`, 1)
	_, err := Parse([]byte(text))
	if err == nil || !strings.Contains(err.Error(), "link (line") || !strings.Contains(err.Error(), "speed (line") {
		t.Errorf("got %v, want both errors", err)
	}
}

// TestErrorsAreBounded: a profile with many errors has at most 20 lines of them, and the last
// line has the number of the others.
func TestErrorsAreBounded(t *testing.T) {
	_, err := Parse([]byte(`{"schema": "ferry.profile/2"}`))
	if lines := strings.Split(err.Error(), "\n"); len(lines) > 20 {
		t.Errorf("%d lines", len(lines))
	}
	text, _ := shipped.ReadFile("h200.json")
	_, err = Parse([]byte(strings.ReplaceAll(string(text), `"source": "`, `"source": "not `)))
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != 20 || !strings.HasPrefix(last, "and ") || !strings.HasSuffix(last, " more errors") {
		t.Errorf("%d lines, the last is %q", len(lines), last)
	}
}

func TestCount(t *testing.T) {
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		c, all := p.Count(), 0
		for confidence, n := range c {
			if n > 0 && !slices.Contains(Confidences(), confidence) {
				t.Errorf("%s: %d numbers of confidence %q", name, n, confidence)
			}
			all += n
		}
		if all < 60+len(p.Attributes) {
			t.Errorf("%s: %d numbers counted, want at least 60 and the attributes", name, all)
		}
		if name == "h200" && c[Measured] < c[Guess] {
			t.Errorf("h200: %v: most should be measured", c)
		}
	}
}

// FuzzParse checks that Parse returns either a value or an error, and that the value is
// usable.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		text, _ := shipped.ReadFile(name + ".json")
		f.Add(text)
		f.Add(text[:len(text)/2])
	}
	f.Add([]byte(`{"schema":"ferry.profile/2","sources":{"a":{}},"link":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var p *Profile
		var err error
		hostile.Check(t, "parse", func() { p, err = Parse(text) })
		if (p == nil) == (err == nil) {
			t.Fatalf("got %v and %v", p, err)
		}
		if p != nil && (p.Memory.Value <= 0 || math.IsNaN(p.Copy.PinnedHtoD.Ns(1<<20)) || p.Confidence(p.Memory.Source) == "") {
			t.Fatalf("an unusable profile: %+v", p)
		}
	})
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

// TestNamedIsOwn: the two values that Named returns are equal, and share no map,
// slice or pointer.
func TestNamedIsOwn(t *testing.T) {
	for _, name := range Names() {
		a, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: two calls return different profiles", name)
		}
		wantOwn(t, name, reflect.ValueOf(*a), reflect.ValueOf(*b))
	}
}

// wantOwn demands that two equal values share no memory that can change.
func wantOwn(t *testing.T, where string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			wantOwn(t, where+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		if a.Kind() != reflect.Map && a.Kind() != reflect.Slice {
			t.Fatalf("%s has the kind %v, which this test does not know", where, a.Kind())
		}
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			t.Errorf("%s: two profiles share its memory", where)
		}
		wantPlain(t, where, a.Type().Elem())
	}
}

// wantPlain demands that a copy of an element shares nothing.
func wantPlain(t *testing.T, where string, elem reflect.Type) {
	switch elem.Kind() {
	case reflect.Struct:
		for i := range elem.NumField() {
			wantPlain(t, where+"."+elem.Field(i).Name, elem.Field(i).Type)
		}
	case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Array:
		t.Errorf("an element of %s has the kind %v", where, elem.Kind())
	}
}

// TestNearest: the nearest value is accepted, and one that is accepted stays.
func TestNearest(t *testing.T) {
	for _, c := range []struct {
		path    string
		v, want float64
	}{
		{"calls.launch_ns", 1e-7, 1e-6}, {"calls.launch_ns", 0, 0}, {"calls.launch_ns", 2.5, 2.5}, {"calls.launch_ns", -1, 1e-6}, {"calls.launch_ns", 1e300, 1e12},
		{"calls.query_ns", 0, 1}, {"link.tags", 0.25, 1}, {"link.tags", 0, 0}, {"link.duplex_cost", 3, 1},
		{"link.payload_bytes_per_s", 10, 1e6}, {"staging.slots", 2.4, 2},
	} {
		if got := Nearest(c.path, c.v); got != c.want || problem(c.path, got) != "" {
			t.Errorf("Nearest(%q, %v) = %v, want %v", c.path, c.v, got, c.want)
		}
	}
}
