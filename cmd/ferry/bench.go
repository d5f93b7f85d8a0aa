package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/calibrate"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/normal"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/internal/nearest"
)

// benchOptions are the flags of "ferry bench".
type benchOptions struct {
	device        string
	setName       string
	set           grid.Set
	only          string // part of the names of kinds or families
	against, read []string
	cases, json   bool

	quick, full, list, csv bool
	budget                 time.Duration
	saveProfile            string
	normal                 string // a reference, or files
	reference              *normal.Reference
}

// newBench returns the command "ferry bench".
func newBench(s *session) *cobra.Command {
	o := &benchOptions{}
	var against, read string
	c := &cobra.Command{
		Use: "bench [--quick|--full] [--set SET] [--only TEXT] [--budget TIME]\n" +
			"                   [--normal NAME|FILES] [--save-profile FILE.json]\n" +
			"                   [--read FILES] [--against FILES] [--cases]\n" +
			"                   [--device D] [--html FILE] [--json|--csv]\n" +
			"       ferry bench --list [--set SET] [--only TEXT] [--json]",
		Short: "measure single operations, or patterns of use",
		Long: `Measures single operations by kind and size, from their submission until the
host knows that they are done: copies of every kind of memory in both
directions, fills, kernels on device memory and over the link, launches, events,
allocation, page-locking, and managed memory that moves. A time is the median of
up to 28 samples, taken in four passes. On a software GPU the times are
predictions from a profile. A kind that the device lacks is skipped, and named.

The text ends with a summary. For each kind it has the value at the largest
size, the ceiling, the first cause of a shortfall, and the fit of the times to
T = a + V/b. The ceiling is the rate of the link or of device memory. Of other
kinds it is the time of the nearest machine that was measured. The summary also
names the sizes at which one kind overtakes another.

--normal compares the times with those of several machines of one type. A row is
abnormal if it is outside of their range by more than half of that range, and by
10 %. The exit status is then 3. Of the rows of a healthy machine, some 4 of
1000 are abnormal.

The set "patterns" has kernels by how they access memory, gathers, atomics,
arithmetic, copies of rows, many small operations, graphs, copies that share the
link, managed memory with advice, and the CPU's accesses.
`,
		Example: "  ferry bench --quick\n  ferry bench --only pinned\n  ferry bench --device cuda --json >mine.json\n  ferry bench --read mine.json --normal h200\n" +
			"  ferry bench --quick --save-profile mine.json\n  ferry bench --device soft:h200 --against mine.json",
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			o.against, o.read = splitFiles(against), splitFiles(read)
			if c.Flags().Changed("budget") && o.budget <= 0 {
				return badUsage("--budget %v: want a time above 0, such as 30s", o.budget)
			}
			return benchmark(c.Context(), s, o)
		},
	}
	c.Flags().BoolVar(&o.quick, "quick", false, "measure a few sizes of each kind with fewer samples, in less than 10 s")
	c.Flags().BoolVar(&o.full, "full", false, "measure all sizes; this is the default")
	c.Flags().StringVar(&o.setName, "set", benchSets[0], "the `SET` of cases: "+strings.Join(benchSets, " or "))
	complete(c, "set", func() []cobra.Completion { return benchSets })
	onlyFlag(c, &o.only)
	c.Flags().DurationVar(&o.budget, "budget", 0, "begin no case after this `TIME`, such as 30s, and name what is left out. The sizes of --quick come first")
	c.Flags().StringVar(&o.normal, "normal", "", "say which times are not normal for machines like `NAME|FILE,...`: "+strings.Join(normal.Names(), ", ")+
		", or files that \"bench --json\" wrote, one of each machine")
	complete(c, "normal", func() []cobra.Completion { return normal.Names() })
	c.Flags().StringVar(&o.saveProfile, "save-profile", "", "write a profile with these times to `FILE.json`, for --device soft:FILE.json")
	c.Flags().StringVar(&against, "against", "", "compare the times with those in `FILE,...`, which \"bench --json\" wrote, or with the medians of several files. "+
		"Of the operations, only the half that profiles are not fitted to is measured. JSON schema ferry.accuracy/1, for patterns ferry.families/1")
	c.Flags().StringVar(&read, "read", "", "read the times from `FILE,...` instead of measuring them")
	c.Flags().BoolVar(&o.cases, "cases", false, "with --set patterns and --against: print each case, except those that are held out")
	c.Flags().BoolVar(&o.list, "list", false, "list the kinds and their sizes, and measure nothing. JSON schema ferry.kinds/1")
	htmlFlag(c, s)
	jsonFlag(c, &o.json, "schema ferry.grid/1; times in nanoseconds")
	c.Flags().BoolVar(&o.csv, "csv", false, "the times as comma-separated values")
	deviceFlag(c, &o.device)
	return c
}

// benchSets are the values of --set. The first is the default.
var benchSets = []string{"operations", "patterns"}

// splitFiles returns the files of a flag, nil for none.
func splitFiles(paths string) []string {
	if paths == "" {
		return nil
	}
	return strings.Split(paths, ",")
}

// onlyFlag adds the flag --only, which selects kinds.
func onlyFlag(c *cobra.Command, only *string) {
	c.Flags().StringVar(only, "only", "", "only kinds whose name contains `TEXT`, like \"pinned\" or \"managed\"")
	complete(c, "only", func() []cobra.Completion { return allKinds() })
}

// allKinds returns the kinds of all sets.
func allKinds() []string { return append(grid.Operations.Kinds(), grid.Patterns.Kinds()...) }

// check completes the options, or returns an error for those that do not fit together.
func (o *benchOptions) check() error {
	switch o.setName {
	case "", benchSets[0]:
		o.set = grid.Operations
	case benchSets[1]:
		o.set = grid.Patterns
	default:
		return badUsage("--set %q: there is no such set; %s", o.setName, nearest.Ask(o.setName, benchSets))
	}
	if err := o.together(); err != nil {
		return err
	}
	if !slices.ContainsFunc(o.set.Cases(), o.matches) {
		return badUsage("--only %q: no kind has that in its name in the set %s; %s", o.only, o.setName, nearest.Ask(o.only, o.set.Kinds()))
	}
	return nil
}

// together returns an error for flags that exclude each other.
func (o *benchOptions) together() error {
	switch {
	case o.cases && (o.set != grid.Patterns || o.against == nil):
		return badUsage("--cases needs --set patterns and --against")
	case o.quick && o.full:
		return badUsage("--quick and --full exclude each other")
	case o.csv && (o.json || o.list):
		return badUsage("--csv and --%s exclude each other", map[bool]string{true: "json", false: "list"}[o.json])
	case o.csv && (o.against != nil || o.normal != ""):
		return badUsage("--csv has only times: leave out --against and --normal")
	case o.read != nil && (o.quick || o.full || o.budget > 0 || o.list):
		return badUsage("--read measures nothing: leave out --quick, --full, --budget and --list")
	case o.normal != "" && o.against != nil:
		return badUsage("--normal and --against exclude each other")
	case o.saveProfile != "" && (o.against != nil || o.read != nil || o.list || o.set != grid.Operations):
		return badUsage("--save-profile needs times of single operations that are measured now: leave out --against, --read, --list and --set")
	case o.saveProfile != "" && !strings.HasSuffix(o.saveProfile, ".json"):
		return badUsage("--save-profile %q: want a name that ends with .json, as --device soft:FILE.json reads it", o.saveProfile)
	}
	return nil
}

// matches reports whether --only accepts a case, by its kind or its family.
func (o *benchOptions) matches(c grid.Case) bool {
	return strings.Contains(c.Kind, o.only) || strings.Contains(c.Family(), o.only)
}

// wants returns which cases to measure. Of operations, only those for tests can be compared.
func (o *benchOptions) wants(other *grid.Result) func(grid.Case) bool {
	if other == nil {
		return o.matches
	}
	has := map[grid.Case]bool{}
	for _, p := range other.Points {
		has[p.Case] = o.set == grid.Patterns || p.Test()
	}
	return func(c grid.Case) bool { return has[c] && o.matches(c) }
}

// benchmark implements "ferry bench".
func benchmark(ctx context.Context, s *session, o *benchOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.list {
		return s.writeReport(newKinds(o), o.json)
	}
	other, err := readGrids(o.against)
	if err == nil {
		err = o.prepare()
	}
	if err != nil {
		return err
	}
	shown(o.json, other)
	if o.read != nil {
		r, err := readGrids(o.read)
		if err == nil {
			s.partial, err = partialOf(o.read)
		}
		if err != nil {
			return err
		}
		shown(o.json || o.csv, r)
		shown(o.json, &s.partial)
		if o.only != "" {
			r.Points = slices.DeleteFunc(r.Points, func(p grid.Point) bool { return !o.matches(p.Case) })
		}
		return firstError(s.writeReport(o.report(r, other), o.json), o.judge(r))
	}
	g, err := s.open(ctx, o.device)
	if err != nil {
		return err
	}
	var base *calibrate.Base
	if o.saveProfile != "" {
		if base, err = calibrate.BaseOf(g); err != nil {
			return err
		}
	}
	p := newProgress(s.stderr)
	r, err := grid.Measure(ctx, g, &grid.Options{
		Set:      o.set,
		Only:     o.wants(other),
		Quick:    o.quick,
		Limit:    o.limit(),
		Progress: func(done, total int, next grid.Case) { p.step(done, total, next.String()) },
	})
	p.done()
	if r == nil || len(r.Points) == 0 {
		return s.measured(ctx, err, g, nil, o.json)
	}
	if err := s.measured(ctx, err, g, o.report(r, other), o.json); err != nil {
		return err
	}
	return firstError(s.saveProfile(ctx, o, base, r), o.judge(r))
}

// quickLimit is how long a quick measurement lasts at most, without opening the device.
const quickLimit = 8 * time.Second

// limit returns the time after which no case begins, or 0.
func (o *benchOptions) limit() time.Duration {
	if o.quick && o.budget == 0 {
		return quickLimit
	}
	return o.budget
}

// report returns the times with their summary, or how they differ from the others.
func (o *benchOptions) report(r, other *grid.Result) report {
	switch {
	case o.csv:
		return table{r}
	case other == nil:
		return o.summarize(r)
	case o.set == grid.Operations:
		return grid.Compare(r, other)
	case o.cases:
		return casesReport{grid.CompareFamilies(r, other)}
	}
	return grid.CompareFamilies(r, other)
}

// casesReport is a comparison by families that shows each case.
type casesReport struct{ *grid.Families }

func (r casesReport) Page() *layout.Page { return r.CasesPage() }

// partialOf returns why the results in files are not whole, or "".
func partialOf(paths []string) (string, error) {
	for _, path := range paths {
		var head struct{ Partial string }
		if err := document.Read(path, grid.Schema, &head); err != nil || head.Partial != "" {
			return head.Partial, err
		}
	}
	return "", nil
}

// readGrids reads files that "ferry bench --json" wrote, and returns the medians of
// several. It returns nil for no files.
func readGrids(paths []string) (*grid.Result, error) {
	var all []*grid.Result
	for _, path := range paths {
		r := new(grid.Result)
		if err := document.Read(path, grid.Schema, r); err != nil {
			return nil, err
		}
		if len(r.Points) == 0 {
			return nil, fmt.Errorf("%s: has no times", path)
		}
		for _, p := range r.Points {
			if p.Size < 1 || p.Median < 0 || p.P5 < 0 || p.P95 < 0 {
				return nil, fmt.Errorf("%s: %v has the median %g ns, from %g to %g: want a size of at least 1, and no negative times", path, p.Case, p.Median, p.P5, p.P95)
			}
		}
		all = append(all, r)
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return grid.Merge(all...), nil
}
