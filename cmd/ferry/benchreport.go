package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/calibrate"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/normal"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/summary"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/internal/nearest"
	"github.com/ferrygpu/ferry/internal/outfile"
)

// prepare reads the reference of --normal.
func (o *benchOptions) prepare() (err error) {
	if o.normal != "" {
		if o.reference, err = readReference(o.normal); err != nil {
			return err
		}
		if o.read == nil && !o.known() {
			return fmt.Errorf("--normal %s: the reference has none of these cases, so nothing was measured; with --normal FILES it can be runs of your own machines (bench --set %s --json)", o.normal, o.setName)
		}
	}
	return nil
}

// known reports whether the reference has a case that will be measured.
func (o *benchOptions) known() bool {
	return slices.ContainsFunc(o.set.Cases(), func(c grid.Case) bool {
		return o.matches(c) && (!o.quick || c.Quick()) && o.reference.Row(c) != nil
	})
}

// readReference returns the reference with a name, or that of files, one of each machine.
func readReference(name string) (*normal.Reference, error) {
	if slices.Contains(normal.Names(), name) {
		return normal.Named(name)
	}
	if !strings.Contains(name, ".") && !strings.ContainsRune(name, filepath.Separator) {
		return nil, badUsage("--normal %q: there is no such reference; %s Or give files that bench --json wrote", name, nearest.Ask(name, normal.Names()))
	}
	var machines [][]*grid.Result
	for _, file := range splitFiles(name) {
		r, err := readGrids([]string{file})
		if err != nil {
			return nil, err
		}
		shown(false, r)
		machines = append(machines, []*grid.Result{r})
	}
	return normal.New(name, machines...), nil
}

// summarize returns times with what they mean.
func (o *benchOptions) summarize(r *grid.Result) report {
	out := &summary.Report{Result: r}
	ref := o.reference
	if ref != nil {
		out.Normal = normal.Compare(r, ref)
	} else {
		ref = normal.Nearest(r)
	}
	if o.set == grid.Operations {
		out.Summary = summary.Of(r, ref)
	}
	return out
}

// judge returns an error if times are not normal.
func (o *benchOptions) judge(r *grid.Result) error {
	if o.reference == nil {
		return nil
	}
	switch n := normal.Compare(r, o.reference); {
	case len(n.Rows) == 0:
		return fmt.Errorf("compare with %s: it has none of these cases", o.reference.Name)
	case n.Abnormal() > 0:
		return found("%d of %d rows are not normal for %s: %d slower, %d faster", n.Abnormal(), len(n.Rows), n.Reference, n.Slower, n.Faster)
	}
	return nil
}

// saveProfile writes the profile of --save-profile, if that was given.
func (s *session) saveProfile(ctx context.Context, o *benchOptions, base *calibrate.Base, r *grid.Result) error {
	if o.saveProfile == "" {
		return nil
	}
	name := strings.TrimSuffix(filepath.Base(o.saveProfile), ".json")
	text, q, err := calibrate.Make(ctx, name, base, r)
	if err == nil {
		err = outfile.Write(o.saveProfile, text)
	}
	if err != nil {
		return err
	}
	s.say("ferry: wrote the profile %s, from that of %s; on %d cases it was not calibrated to, the median error is %.1f %% (%.1f %% before)\n",
		o.saveProfile, q.Base, q.Cases, 100*q.After, 100*q.Before)
	return nil
}

// table is the report of --csv.
type table struct{ *grid.Result }

// values returns the times as comma-separated values. If they are not whole, the last line
// is a comment that says why.
func (t table) values(partial string) []byte {
	text := t.CSV()
	if partial != "" {
		text = fmt.Appendf(text, "# partial: %s\n", partial)
	}
	return text
}

// kindsSchema is the version of the document of --list.
const kindsSchema = "ferry.kinds/1"

// kinds is the report of --list.
type kinds struct {
	Schema string      `json:"schema"`
	Set    string      `json:"set"`
	Kinds  []grid.Info `json:"kinds"`
}

// newKinds returns the kinds that the options select.
func newKinds(o *benchOptions) *kinds {
	k := &kinds{kindsSchema, o.setName, o.set.About()}
	k.Kinds = slices.DeleteFunc(k.Kinds, func(i grid.Info) bool { return !o.matches(grid.Case{Kind: i.Kind, Size: i.Sizes[0]}) })
	return k
}

// JSON returns the kinds as one document.
func (k *kinds) JSON() ([]byte, error) { return json.Marshal(k) }

// Page returns the kinds as a table.
func (k *kinds) Page() *layout.Page {
	p := new(layout.Page)
	cases, quick := 0, 0
	t := &layout.Table{Columns: []layout.Column{{Name: "kind"}, {Name: "sizes", Right: true}, {Name: "quick", Right: true}, {Name: "from and to"}}}
	for _, i := range k.Kinds {
		cases, quick = cases+len(i.Sizes), quick+len(i.Quick)
		first, last := grid.Case{Kind: i.Kind, Size: i.Sizes[0]}, grid.Case{Kind: i.Kind, Size: i.Sizes[len(i.Sizes)-1]}
		span := first.SizeText()
		if last != first {
			span += " to " + last.SizeText()
		}
		t.Row(i.Kind, fmt.Sprint(len(i.Sizes)), fmt.Sprint(len(i.Quick)), span+" "+i.Unit)
	}
	p.Table(t)
	p.Linef("\n%d kinds, %d cases; %d with --quick", len(k.Kinds), cases, quick)
	return p
}
