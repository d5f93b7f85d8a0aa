package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
)

// FieldError describes an error in one field of a profile.
type FieldError struct {
	Path         string // such as "link.tags.value"; "" for the document itself
	Line, Column int    // position in the text, from 1; 0 for a profile without a text
	Problem      string // what was found and what is wanted, with the unit
}

func (e *FieldError) Error() string {
	if e == nil {
		return "no error"
	}
	path := e.Path
	if path == "" {
		path = "the document"
	}
	if e.Line == 0 {
		return path + ": " + e.Problem
	}
	return fmt.Sprintf("%s (line %d, column %d): %s", path, e.Line, e.Column, e.Problem)
}

// maxErrors is the most errors that are reported at once, each on a line.
const maxErrors = 20

// problems are the errors in a profile.
type problems struct {
	errs []error
	more int // errors that are not in errs
}

func (p *problems) add(err error) {
	if len(p.errs) == maxErrors {
		p.more++
		return
	}
	p.errs = append(p.errs, err)
}

// err returns the errors, joined. If there are too many, the last line has their number.
func (p *problems) err() error {
	if p.more == 0 {
		return errors.Join(p.errs...)
	}
	return errors.Join(append(slices.Clone(p.errs[:maxErrors-1]), fmt.Errorf("and %d more errors", p.more+1))...)
}

// decoder fills a profile from a document and collects the errors in it.
type decoder struct {
	problems
	text []byte
	uses []use
}

// use is a field that names a source.
type use struct {
	source, path string
	at           *node
}

func (d *decoder) fail(n *node, path, problem string, args ...any) {
	line, column := position(d.text, n.offset)
	d.add(&FieldError{path, line, column, fmt.Sprintf(problem, args...)})
}

func join(path, name string) string {
	if name = printable.Name(name); path == "" {
		return name
	}
	return path + "." + name
}

// fill reads n into v, the field at path.
func (d *decoder) fill(v reflect.Value, n *node, path string) {
	switch x := v.Addr().Interface().(type) {
	case *Number:
		d.object(v, n, path)
		d.number(x, n, path)
		return
	case *Curve:
		d.object(v, n, path)
		d.curve(x, n, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.object(v, n, path)
	case reflect.Map:
		d.table(v, n, path)
	case reflect.Slice:
		d.list(v, n, path)
	case reflect.String:
		s, ok := n.token.(string)
		if !ok {
			d.fail(n, path, "found %s, want a text", n.describe())
		}
		v.SetString(printable.Line(s))
	case reflect.Float64:
		v.SetFloat(d.float(n, path))
	default:
		panic("BUG: a profile has a field of type " + v.Type().String())
	}
}

// object fills a struct. Every field of the struct must be present unless it is
// optional, and no other field may be.
func (d *decoder) object(v reflect.Value, n *node, path string) {
	if n.members == nil {
		d.fail(n, path, "found %s, want %s", n.describe(), wanted(v.Type(), path))
		return
	}
	var known []string
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		known = append(known, name)
		member := n.members[name]
		switch {
		case member != nil:
			d.fill(v.Field(i), member, join(path, name))
		case option == "":
			d.fail(n, join(path, name), "missing, want %s", wanted(field.Type, join(path, name)))
		}
	}
	for _, key := range n.keys {
		if !slices.Contains(known, key) {
			d.fail(n.members[key], join(path, key), "no such field: %s", knownText(path, known))
		}
	}
}

func knownText(path string, known []string) string {
	object := "a profile"
	if path != "" {
		object = path
	}
	return object + " has " + strings.Join(known, ", ")
}

func (d *decoder) table(v reflect.Value, n *node, path string) {
	if n.members == nil {
		d.fail(n, path, "found %s, want an object", n.describe())
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, key := range n.keys {
		value := reflect.New(v.Type().Elem()).Elem()
		d.fill(value, n.members[key], join(path, key))
		v.SetMapIndex(reflect.ValueOf(printable.Line(key)), value)
	}
}

func (d *decoder) list(v reflect.Value, n *node, path string) {
	if n.token != json.Delim('[') {
		d.fail(n, path, "found %s, want a list", n.describe())
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, item := range n.items {
		d.fill(v.Index(i), item, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (d *decoder) float(n *node, path string) float64 {
	text, ok := n.token.(json.Number)
	if !ok {
		d.fail(n, path, "found %s, want a number%s", n.describe(), inUnit(path))
		return 0
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.Abs(f) > largest {
		d.fail(n, path, "%s is not within ±%g%s", text, float64(largest), inUnit(path))
		return 0
	}
	return f
}

// largest is more than any figure of a machine. A float64 represents all integers up
// to it.
const largest = 1 << 53

// number checks the value and the source of x.
func (d *decoder) number(x *Number, n *node, path string) {
	value := n.members["value"]
	if value == nil {
		return
	}
	if name, ok := strings.CutPrefix(path, "attributes."); ok && !attributeNames[name] {
		d.fail(value, path, "CUDA has no device attribute CU_DEVICE_ATTRIBUTE_%s", name)
	} else if text := problem(path, x.Value); text != "" {
		d.fail(value, path+".value", "%s", text)
	}
	d.source(x.Source, n, path)
}

var attributeNames = func() map[string]bool {
	names := map[string]bool{}
	for _, a := range cu.DeviceAttributes() {
		names[attributeName(a)] = true
	}
	return names
}()

func attributeName(a cu.DeviceAttribute) string {
	return strings.TrimPrefix(a.String(), "CU_DEVICE_ATTRIBUTE_")
}

// curve checks that the points of c rise, and records its source.
func (d *decoder) curve(c *Curve, n *node, path string) {
	if at, text := c.problem(); text != "" {
		d.fail(n.members["points"].items[at], fmt.Sprintf("%s.points[%d]", path, at), "%s", text)
	}
	d.source(c.Source, n, path)
}

func (d *decoder) source(name string, n *node, path string) {
	if s := n.members["source"]; s != nil {
		d.uses = append(d.uses, use{name, path + ".source", s})
	}
}

// checkSources checks the sources, and that each source that a field names exists.
func (d *decoder) checkSources(sources map[string]Source, n *node) {
	for _, key := range n.members["sources"].names() {
		s, path, at := sources[printable.Line(key)], join("sources", key), n.members["sources"].members[key]
		if at.members["confidence"] != nil && !slices.Contains(Confidences(), s.Confidence) {
			d.fail(at.members["confidence"], path+".confidence", "found %s, want one of %q", printable.Value(at.members["confidence"].text()), Confidences())
		}
		if text := at.members["text"]; text != nil && s.Text == "" {
			d.fail(text, path+".text", "found nothing, want where the numbers come from")
		}
	}
	for _, u := range d.uses {
		if _, ok := sources[u.source]; !ok {
			d.fail(u.at, u.path, "%s is not one of \"sources\"", printable.Value(u.at.text()))
		}
	}
}

// unitOf returns the unit in the name of a field: "ns" for launch_ns.
func unitOf(path string) string {
	path = strings.TrimSuffix(path, ".value")
	for _, u := range []struct{ suffix, unit string }{
		{"_bytes_per_s", "bytes/s"}, {"_per_s", "1/s"}, {"_bytes", "bytes"}, {".bytes", "bytes"}, {"_ns", "ns"}, {".ns", "ns"},
	} {
		if strings.HasSuffix(path, u.suffix) {
			return u.unit
		}
	}
	return ""
}

// inUnit returns " of " and the unit of a field, or "" if it has none.
func inUnit(path string) string {
	if u := unitOf(path); u != "" {
		return " of " + u
	}
	return ""
}

// wanted describes the JSON of a field by its type.
func wanted(t reflect.Type, path string) string {
	switch {
	case t == reflect.TypeFor[Number]():
		return fmt.Sprintf(`{"value": a number%s, "source": one of "sources"}`, inUnit(path))
	case t == reflect.TypeFor[Curve]():
		return `{"points": [{"bytes": ..., "ns": ...}, ...], "source": one of "sources"}`
	case t.Kind() == reflect.String:
		return "a text"
	case t.Kind() == reflect.Float64:
		return "a number" + inUnit(path)
	case t.Kind() == reflect.Slice:
		return "a list"
	}
	return "an object"
}
