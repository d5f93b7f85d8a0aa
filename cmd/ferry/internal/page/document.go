package page

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/overlap"
	"github.com/ferrygpu/ferry/internal/measure/bench"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/profile"
)

// head is what documents have in common.
type head struct {
	Schema  string `json:"schema"`
	Partial string `json:"partial"`
}

// Of returns the page of a document: of ferry bench, compare or trace overlap. It returns an
// error for another document.
func Of(doc []byte) (*Page, error) {
	var h head
	if err := json.Unmarshal(doc, &h); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	var p *Page
	var err error
	switch h.Schema {
	case grid.Schema:
		p, err = decode(doc, h.Schema, benchPage)
	case bench.Schema:
		p, err = decode(doc, h.Schema, comparePage)
	case overlap.Schema:
		p, err = decode(doc, h.Schema, overlapPage)
	default:
		return nil, fmt.Errorf("page: there is no page for the schema %q", h.Schema)
	}
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	p.finish(doc, h)
	return p, nil
}

// decode makes a page of a document that holds a T.
func decode[T any](doc []byte, schema string, make func(*T) *Page) (*Page, error) {
	v := new(T)
	if err := document.Decode("document", doc, schema, v); err != nil {
		return nil, err
	}
	printable.Strings(v)
	return make(v), nil
}

// finish adds the document itself, and completes tables and marks.
func (p *Page) finish(doc []byte, h head) {
	var b bytes.Buffer
	if json.Compact(&b, doc) == nil {
		p.Raw = b.Bytes()
	}
	if h.Partial != "" {
		p.Notes = append([]string{"This result is partial: " + h.Partial + "."}, p.Notes...)
	}
	for _, c := range p.Charts {
		if c.Table == nil {
			c.Table = c.pivot()
		}
	}
}

// marked returns what predicts the numbers of a device, or "".
func marked(d info.Device) string {
	switch {
	case !d.Emulated:
		return ""
	case d.Profile == nil:
		return "the profile of " + d.Opened
	}
	return "profile " + *d.Profile
}

// deviceLine returns a line about a device.
func deviceLine(d info.Device) string {
	if d.Emulated {
		return d.Opened + ", a GPU in software that predicts " + d.Name
	}
	return d.Opened + ", " + d.Name + ", hardware"
}

// machine returns the profile of a device: that of a software GPU, or the one that ships
// for the product. It returns nil if there is none.
func machine(d info.Device) *profile.Profile {
	if d.Profile == nil {
		return profile.ForDevice(d.Name)
	}
	p, err := profile.Named(*d.Profile)
	if err != nil {
		return nil
	}
	return p
}

// linkRate returns the rate of a device's link one way in GB/s, and its name. The figures are
// those of the document, or else those of the profile for the device. It returns 0 if neither
// is known.
func linkRate(m *grid.Machine, d info.Device) (rate float64, name string) {
	from := ""
	if m == nil || m.Link <= 0 {
		p := machine(d)
		if p == nil {
			return 0, ""
		}
		m, from = grid.MachineOf(p), ", by profile "+p.Name
	}
	if m.Link <= 0 {
		return 0, ""
	}
	return m.Link / 1e9, fmt.Sprintf("PCIe %d.0 x%d one way%s", m.Generation, m.Lanes, from)
}
