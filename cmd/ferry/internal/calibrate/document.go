package calibrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	"github.com/ferrygpu/ferry/profile"
)

// The sources of what a calibration changes.
const (
	source       = "bench"
	deviceSource = "device"
)

// doc is the document of a profile.
type doc struct{ root map[string]any }

func parseDoc(text []byte) (*doc, error) {
	d := &doc{}
	if err := json.Unmarshal(text, &d.root); err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	return d, nil
}

// text returns the document, with the schema first.
func (d *doc) text() ([]byte, error) {
	rest, err := json.Marshal(d.root)
	if err != nil {
		return nil, err
	}
	schema := []byte(fmt.Sprintf(`"schema":%q`, profile.Schema))
	rest = bytes.Replace(rest, append(schema, ','), nil, 1)
	return document.Indent(append(append([]byte("{"), append(schema, ',')...), rest[1:]...))
}

// object returns the object at a path, or nil.
func (d *doc) object(path string) map[string]any {
	at := d.root
	for name := range strings.SplitSeq(path, ".") {
		at, _ = at[name].(map[string]any)
	}
	return at
}

// number returns the form of a number in a document.
func number(v float64, source string) map[string]any {
	return map[string]any{"value": v, "source": source}
}

// moveNumber changes a number if the document has it. It keeps four digits.
func (d *doc) moveNumber(path string, to func(old float64) float64) {
	at := d.object(path)
	old, ok := at["value"].(float64)
	if !ok {
		return
	}
	at["value"], at["source"] = significant(to(old)), source
}

// significant rounds to four digits, because no measurement has more.
func significant(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	if unit < 1 {
		inverse := math.Round(1 / unit)
		return math.Round(v*inverse) / inverse
	}
	return math.Round(v/unit) * unit
}

// curve returns a curve if the document has it with points.
func (d *doc) curve(path string) (c profile.Curve, ok bool) {
	at := d.object(path)
	if at == nil {
		return c, false
	}
	text, err := json.Marshal(at)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err == nil && len(c.Points) > 0
}

// setCurve replaces a curve that the document has.
func (d *doc) setCurve(path string, c profile.Curve) {
	at := d.object(path)
	points := make([]any, 0, len(c.Points))
	for _, p := range c.Points {
		points = append(points, map[string]any{"bytes": p.Bytes, "ns": p.Ns})
	}
	at["points"], at["source"] = points, source
}
