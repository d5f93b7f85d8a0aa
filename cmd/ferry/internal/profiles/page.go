package profiles

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/profile"
)

// Page is one profile with its document.
type Page struct {
	Profile  *profile.Profile
	Document []byte // from which Profile was parsed
}

// JSON returns the document.
func (p *Page) JSON() ([]byte, error) { return p.Document, nil }

// Page returns the figures as tables, then their sources.
func (p *Page) Page() *layout.Page {
	out := new(layout.Page)
	out.Linef("%s: %s\n%s", p.Profile.Name, p.Profile.Title, p.Profile.About)
	w := walker{}
	w.walk("", reflect.ValueOf(p.Profile).Elem())
	for _, t := range []*layout.Table{p.table("field", w.fields), p.table("curve", w.curves), p.table("attribute", w.attributes)} {
		if !t.Empty() {
			out.Line("")
			out.Table(t)
		}
	}
	out.Line("\nsources:")
	for _, name := range slices.Sorted(maps.Keys(p.Profile.Sources)) {
		s := p.Profile.Sources[name]
		out.Hang(4, fmt.Sprintf("  %s (%s): %s", name, s.Confidence, s.Text))
	}
	return out
}

// table returns figures as a table.
func (p *Page) table(title string, figures []figure) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{Name: title}, {Name: "value"}, {Name: "confidence"}, {Name: "source"}}}
	for _, f := range figures {
		t.Row(f.name, f.value, string(p.Profile.Confidence(f.source)), f.source)
	}
	return t
}

// figure is a number or a curve of a profile.
type figure struct{ name, value, source string }

// walker collects the figures of a profile in the order of its fields, without those that
// are left out.
type walker struct{ fields, curves, attributes []figure }

// walk collects the figures of v, which is the value of a field, or a whole profile.
func (w *walker) walk(field string, v reflect.Value) {
	switch x := v.Interface().(type) {
	case profile.Number:
		if x.Source != "" {
			w.fields = append(w.fields, number(field, x))
		}
		return
	case profile.Curve:
		if x.Source != "" {
			w.curves = append(w.curves, figure{field, curve(x.Points), x.Source})
		}
		return
	case map[string]profile.Number:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			w.attributes = append(w.attributes, number(name, x[name]))
		}
		return
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for f := range v.Type().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if field != "" {
			name = field + "." + name
		}
		w.walk(name, v.FieldByIndex(f.Index))
	}
}

// number returns a number as a figure.
func number(name string, n profile.Number) figure {
	return figure{name, strconv.FormatFloat(n.Value, 'f', -1, 64), n.Source}
}

// curve describes the points of a curve by the first and the last.
func curve(points []profile.Point) string {
	if len(points) == 0 {
		return "no points"
	}
	if len(points) == 1 {
		return at(points[0])
	}
	return fmt.Sprintf("%d points: %s ... %s", len(points), at(points[0]), at(points[len(points)-1]))
}

// at describes a point: "4 Ki 1.04 us".
func at(p profile.Point) string { return bytes(p.Bytes) + " " + duration(p.Ns) }

// bytes formats a number of bytes, in Ki or Mi if it is a multiple of them.
func bytes(n float64) string {
	switch {
	case n >= 1<<20 && math.Mod(n, 1<<20) == 0:
		return fmt.Sprintf("%.0f Mi", n/(1<<20))
	case n >= 1<<10 && math.Mod(n, 1<<10) == 0:
		return fmt.Sprintf("%.0f Ki", n/(1<<10))
	}
	return fmt.Sprintf("%.0f B", n)
}

// duration formats nanoseconds with three digits.
func duration(ns float64) string {
	switch {
	case ns >= 1e6:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	case ns >= 1e3:
		return fmt.Sprintf("%.3g us", ns/1e3)
	}
	return fmt.Sprintf("%.3g ns", ns)
}
