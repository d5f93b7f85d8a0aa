package load

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/printable"
)

// Page returns the report: what was loaded, a table, and sentences.
func (r *Report) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("%s\n%s\n", r.Device, r.what())
	t := &layout.Table{Columns: []layout.Column{{}, {Words: true}}}
	for _, row := range r.rows() {
		t.Row(row[0], row[1])
	}
	p.Table(t)
	for _, sentence := range r.sentences() {
		p.Line("\n" + sentence)
	}
	return p
}

// what says what was loaded.
func (r *Report) what() string {
	names := printable.Path(r.Files[0])
	if len(r.Files) > 1 {
		names = fmt.Sprintf("%d files, %s to %s", len(r.Files), names, printable.Path(r.Files[len(r.Files)-1]))
	}
	var types []string
	for _, t := range r.Types {
		text := fmt.Sprintf("%d %s", t.Tensors, t.Name)
		if t.As != t.Name {
			text += " to " + t.As
		}
		types = append(types, text)
	}
	list := ""
	if len(types) > 0 {
		list = " (" + strings.Join(types, ", ") + ")"
	}
	return fmt.Sprintf("%s: %d of %d tensors%s, %s", names, r.Tensors, r.Of, list, size(r.Bytes))
}

// rows returns the lines of the table.
func (r *Report) rows() (all [][2]string) {
	add := func(name, value string) { all = append(all, [2]string{name, value}) }
	if p := r.Plan; p != nil {
		add("reads", fmt.Sprintf("%d without a break", p.Reads))
		add("memory to allocate", size(r.Memory+p.Extra))
		add("memory that is free", size(p.Free))
		if p.Profile != "" {
			add("time, predicted", short(p.Ns))
			add("rate, predicted", rate(r.Bytes, p.Ns))
		}
	}
	if l := r.Load; l != nil {
		add("time", short(l.Ns))
		add("rate", rate(r.Bytes, l.Ns))
		add("device memory", size(r.Memory))
		add("page-locked memory", size(l.Pinned)+" at most")
	}
	return all
}

// sentences returns what follows the table.
func (r *Report) sentences() (all []string) {
	if p := r.Plan; p != nil {
		all = append(all, p.verdict())
	}
	if l := r.Load; l != nil && l.Why != "" {
		all = append(all, "This load was "+l.Why+".")
	}
	if l := r.Load; l != nil && l.Predicted {
		all = append(all, "The times are predictions of the software GPU. They do not count the reading of files.")
	}
	if v := r.Verified; v != nil {
		all = append(all, fmt.Sprintf("Verified: the hashes of %d tensors on the device, %s, are those of the files (%s).", v.Tensors, size(v.Bytes), short(v.Ns)))
	}
	return all
}

// verdict says whether the tensors fit, and what the time is.
func (p *Plan) verdict() string {
	text := "The tensors fit."
	if !p.Fits {
		text = "The tensors do not fit: select some by --tensors, or convert them by --to."
	}
	if p.Profile == "" {
		return text + " There is no profile for this device, so the time is not predicted."
	}
	return text + " The time is that of the link of profile " + p.Profile + ", or of its CPU if that is slower; a disk can be slower still."
}
