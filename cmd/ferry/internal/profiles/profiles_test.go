package profiles

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/profile"
)

// TestPage demands as many figures as the profile counts, each with a source.
func TestPage(t *testing.T) {
	for _, name := range profile.Names() {
		p, err := profile.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		w := walker{}
		w.walk("", reflect.ValueOf(p).Elem())
		got := map[profile.Confidence]int{}
		for _, f := range slices.Concat(w.fields, w.curves, w.attributes) {
			if !strings.HasPrefix(f.name, "tuning.") { // which Count leaves out
				got[p.Confidence(f.source)]++
			}
		}
		if want := p.Count(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v figures, want %v", name, got, want)
		}
		text := (&Page{Profile: p}).Page().Text(0)
		for _, want := range []string{p.Title, "copy.pinned_htod ", "\nASYNC_ENGINE_COUNT ", "driver_version "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page lacks %q", name, want)
			}
		}
		for source := range p.Sources {
			if !strings.Contains(text, "\n  "+source+" (") {
				t.Errorf("%s: the page lacks source %s", name, source)
			}
		}
	}
}

// TestDocument: the text of a shipped profile is the profile.
func TestDocument(t *testing.T) {
	for _, name := range profile.Names() {
		text, err := profile.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := profile.Parse(text)
		want, _ := profile.Named(name)
		if err != nil || !reflect.DeepEqual(p, want) {
			t.Errorf("%s: got another profile, %v", name, err)
		}
	}
	if _, err := profile.Text("none"); err == nil {
		t.Error("got the text of a profile that does not exist")
	}
}

func TestShipped(t *testing.T) {
	l, err := Shipped()
	if err != nil || len(l.Profiles) != len(profile.Names()) {
		t.Fatalf("got %v, %v", l, err)
	}
	for _, e := range l.Profiles {
		if e.Name == "" || e.Title == "" || e.Memory <= 0 || strings.HasPrefix(e.Capability, "0") || e.Link == "" {
			t.Errorf("got %+v", e)
		}
		if !strings.Contains(l.Page().Text(0), "\n"+e.Name+" ") {
			t.Errorf("the list lacks %s", e.Name)
		}
	}
}

func TestCurve(t *testing.T) {
	points := []profile.Point{{Bytes: 0, Ns: 0.5}, {Bytes: 4096, Ns: 1043}, {Bytes: 1000, Ns: 2}, {Bytes: 1 << 28, Ns: 4.882e6}}
	for n, want := range []string{"no points", "0 B 0.5 ns", "2 points: 0 B 0.5 ns ... 4 Ki 1.04 us", "3 points: 0 B 0.5 ns ... 1000 B 2 ns", "4 points: 0 B 0.5 ns ... 256 Mi 4.88 ms"} {
		if got := curve(points[:n]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
