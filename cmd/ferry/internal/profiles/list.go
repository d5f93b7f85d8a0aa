package profiles

import (
	"encoding/json"
	"fmt"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/profile"
)

// ListSchema is the version of the document that [List.JSON] returns.
const ListSchema = "ferry.profiles/1"

// List is the profiles that Ferry ships.
type List struct {
	Schema   string  `json:"schema"`
	Profiles []Entry `json:"profiles"`
}

// Entry is one profile.
type Entry struct {
	Name       string                     `json:"name"`
	Title      string                     `json:"title"`
	Capability string                     `json:"compute_capability"`
	Memory     int64                      `json:"memory_bytes"`
	Link       string                     `json:"link"`
	Figures    map[profile.Confidence]int `json:"profile_figures"` // by confidence
}

// Shipped returns the list of the profiles that Ferry ships.
func Shipped() (*List, error) {
	l := &List{Schema: ListSchema}
	for _, name := range profile.Names() {
		p, err := profile.Named(name)
		if err != nil {
			return nil, err
		}
		l.Profiles = append(l.Profiles, entry(p))
	}
	return l, nil
}

// entry describes a profile.
func entry(p *profile.Profile) Entry {
	return Entry{
		Name: p.Name, Title: p.Title, Memory: int64(p.Memory.Value), Link: link(&p.Link), Figures: p.Count(),
		Capability: fmt.Sprintf("%d.%d", p.Attributes["COMPUTE_CAPABILITY_MAJOR"].Int(), p.Attributes["COMPUTE_CAPABILITY_MINOR"].Int()),
	}
}

// link describes the link to the host.
func link(l *profile.Link) string {
	if l.Generation.Int() == 0 {
		return fmt.Sprintf("%.0f GB/s", l.Payload.Value/1e9)
	}
	return fmt.Sprintf("PCIe %d x%d", l.Generation.Int(), l.Lanes.Int())
}

// confidences are the columns of the list, in their order.
var confidences = []profile.Confidence{profile.Measured, profile.Datasheet, profile.Derived, profile.Guess}

// Page returns the list as a table.
func (l *List) Page() *layout.Page {
	p := new(layout.Page)
	t := &layout.Table{Columns: []layout.Column{{Name: "profile"}, {Name: "machine"}, {Name: "cc", Right: true}, {Name: "GiB", Right: true}, {Name: "link"}}, Narrow: true}
	for _, c := range confidences {
		t.Columns = append(t.Columns, layout.Column{Name: string(c), Right: true})
	}
	for _, e := range l.Profiles {
		row := []string{e.Name, e.Title, e.Capability, fmt.Sprintf("%.1f", float64(e.Memory)/(1<<30)), e.Link}
		for _, c := range confidences {
			row = append(row, fmt.Sprint(e.Figures[c]))
		}
		t.Row(row...)
	}
	p.Table(t)
	p.Line("\nRun ferry profile show NAME for the figures of one.")
	return p
}

// JSON returns the list as one document.
func (l *List) JSON() ([]byte, error) { return json.Marshal(l) }
