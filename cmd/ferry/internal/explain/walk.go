package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// access is one access of an agent to memory.
type access struct {
	path  string // title
	kind  string // of the memory
	addr  uint64
	agent softgpu.Agent
	write bool
}

// access adds the steps of an access.
func (l *lab) access(x access) error {
	if l.soft == nil {
		from := len(l.r.Steps)
		l.observe(x)
		l.fromShadow(x.path)
		if x.kind != managed { // whose faults visit places again
			slices.SortStableFunc(l.r.Steps[from:], func(a, b Step) int { return rank(a.Place) - rank(b.Place) })
		}
		return nil
	}
	w, err := l.soft.Walk(l.g.CUContext(), cu.DevicePtr(x.addr), x.agent, x.write)
	if err != nil {
		return err
	}
	l.add(Step{Path: x.path, Place: "virtual address", Address: hex(x.addr), Source: Observed, Text: w.What})
	total, at := 0.0, x.addr
	for i := 0; i < len(w.Steps); {
		n := sameUnit(w.Steps[i:])
		s := l.stepOf(x.path, at, w.Steps[i:i+n])
		if s.CostNs != nil {
			total += *s.CostNs
		}
		if s.Place == "driver" && x.kind == pageable {
			at = 0 // the way goes on from the beginning of the staging buffer
		}
		l.add(s)
		i += n
	}
	if w.Fault != "" {
		l.add(Step{Path: x.path, Place: "fault", Source: Predicted, Text: w.Fault})
		return nil
	}
	l.add(Step{Path: x.path, Place: "in all", CostNs: cost(total), Source: Predicted,
		Text: fmt.Sprintf("%s, nothing cached; the least sure figure is %s", w.Path, confidence(string(w.Sure)))})
	return nil
}

// rank is the order of places on a way.
func rank(place string) int {
	return slices.Index([]string{"virtual address", "CPU MMU", "driver", "GPU MMU", "ATS", "link packets", "IOMMU", "physical place", "in all"}, place)
}

// fromShadow adds the costs that the software GPU predicts for a path. Its addresses are
// those of another run, and left out. So is an IOMMU that this machine does not have.
func (l *lab) fromShadow(path string) {
	absent := 0.0
	for _, s := range l.shadow {
		switch {
		case s.Path != path || s.Source != Predicted || s.CostNs == nil || s.Place == "run":
			continue
		case s.Place == "IOMMU" && l.hw.Untranslated():
			absent += *s.CostNs
			continue
		case s.Place == "in all":
			s.CostNs = cost(*s.CostNs - absent)
		}
		s.Address, s.Text = "", withoutAddresses(s.Text)
		l.add(s)
	}
}

// confidence returns the words for a confidence of a profile.
func confidence(c string) string {
	if c == "guess" || c == "datasheet" {
		return "a " + c
	}
	return c
}

// sameUnit returns how many steps at the beginning are reads of one table, or 1.
func sameUnit(steps []softgpu.Step) int {
	n := 1
	for n < len(steps) && steps[0].Level != "" && steps[n].Level != "" && steps[n].Unit == steps[0].Unit {
		n++
	}
	return n
}

// places are the names of units in a report.
var places = map[string]string{"link": "link packets", "memory": "physical place"}

// stepOf returns the step for the walk of an address through one table, or for another
// step.
func (l *lab) stepOf(path string, addr uint64, steps []softgpu.Step) Step {
	last := steps[len(steps)-1]
	s := Step{Path: path, Place: last.Unit, Source: Predicted, Text: last.Text}
	if name := places[last.Unit]; name != "" {
		s.Place = name
	}
	ns := 0.0
	for _, e := range steps {
		ns += e.Ns
	}
	if last.Unit == "link" && l.prof.Link.RoundTrip.Value > 0 {
		ns *= l.latency() / l.prof.Link.RoundTrip.Value
		s.Text += l.packets()
	}
	if ns > 0 {
		s.CostNs = cost(ns)
	}
	if last.Level == "" {
		s.Address = firstAddress(last.Text)
		return s
	}
	if last.Page > 0 {
		s.Address = hex(last.Frame + addr&(last.Page-1))
	}
	s.Text = tableText(steps)
	return s
}

// latency is the profile's time of one read that is alone on the link. The round trip of a
// link with many reads in flight, which a walk has, is longer.
func (l *lab) latency() float64 {
	if n := l.prof.Link.Latency; n.Source != "" {
		return n.Value
	}
	return l.prof.Link.RoundTrip.Value
}

// packets describes the link of the profile.
func (l *lab) packets() string {
	k := &l.prof.Link
	if k.Generation.Value == 0 || k.Lanes.Value == 0 {
		return ""
	}
	return fmt.Sprintf("; PCI Express Gen%d x%d, a header of %d bytes for each packet", k.Generation.Int(), k.Lanes.Int(), k.Header.Int())
}

// tableText lists the entries that a walk has read: "PDE1[2], PDE0[7]: invalid".
func tableText(steps []softgpu.Step) string {
	var entries []string
	found := ""
	for _, e := range steps {
		entry := fmt.Sprintf("%s[%d]", e.Level, e.Index)
		entries, found = append(entries, entry), strings.TrimPrefix(e.Text, entry+" ")
	}
	return strings.Join(entries, ", ") + ": " + found
}

func hex(address uint64) string { return fmt.Sprintf("%#x", address) }

// firstAddress returns the first hexadecimal number of a text, or "".
func firstAddress(text string) string {
	for word := range strings.FieldsSeq(text) {
		if word = strings.Trim(word, ",:;"); strings.HasPrefix(word, "0x") {
			return word
		}
	}
	return ""
}

// withoutAddresses replaces the addresses and indices of another run.
func withoutAddresses(text string) string {
	if entries, found, isTable := strings.Cut(text, ": "); isTable && strings.Contains(entries, "[") {
		page, _, _ := strings.Cut(found, " at 0x")
		return fmt.Sprintf("%d table entries: %s", strings.Count(entries, "["), page)
	}
	return elsewhere.ReplaceAllString(text, "")
}

// elsewhere matches addresses in the text of a step.
var elsewhere = regexp.MustCompile(`0x[0-9a-f]+ of | (of|to) bus address 0x[0-9a-f]+`)
