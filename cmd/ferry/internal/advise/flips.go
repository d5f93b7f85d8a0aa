package advise

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry"
)

// flipper looks for changes of a job that change the best kind.
type flipper struct {
	ctx context.Context
	g   *ferry.GPU
	p   *predictor
	j   Job
	was string // the best kind of the job
	// like is the pipeline of the table, if there is one.
	like way
}

// answer is what is best for a job.
type answer struct {
	w           way
	ns, instead float64 // of the best, and of the best way of the kind that was best
}

// flips returns where the choice changes. To be fast, it compares fewer ways than the table,
// with smaller runs.
func flips(ctx context.Context, g *ferry.GPU, p *predictor, r *Report) ([]Flip, error) {
	f := &flipper{ctx: ctx, g: g, p: p, j: r.job, was: family(r.Best.Kind)}
	for _, a := range r.Alternatives {
		if a.way.path == Pipelined {
			f.like = a.way
		}
	}
	out := []Flip{}
	for _, look := range []func() ([]Flip, error){f.reuse, f.size, f.access} {
		some, err := look()
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// family returns the kind of memory without its attributes.
func family(kind string) string {
	if kind == WriteCombined {
		return ZeroCopy
	}
	return kind
}

// ask returns what is best for a job.
func (f *flipper) ask(j Job) (best answer, err error) {
	ways, _, err := candidates(f.g, &j)
	if err != nil {
		return best, err
	}
	ways = slices.DeleteFunc(ways, func(w way) bool {
		return w.path == OnDemand || w.path == Staged || w.path == EachTime || w.kind == WriteCombined
	})
	for _, w := range slices.Clone(ways) {
		if w.path != Copied || w.kind == Pageable || !j.Access.divides() {
			continue
		}
		for _, more := range f.pipelines(w.kind, &j) {
			if max(j.In, j.Out)/more.parts >= leastChunk && f.p.affordable(more, j) && !slices.Contains(ways, more) {
				ways = append(ways, more)
			}
		}
	}
	for i, w := range ways {
		x, err := f.p.predict(f.ctx, w, j)
		if err != nil {
			return best, err
		}
		if i == 0 || x.ns < best.ns {
			best.w, best.ns = w, x.ns
		}
		if family(w.kind) == f.was && (best.instead == 0 || x.ns < best.instead) {
			best.instead = x.ns
		}
	}
	return best, nil
}

// pipelines returns pipelines to compare: few chunks, and chunks like those of the table.
func (f *flipper) pipelines(kind string, j *Job) []way {
	all := []way{{kind, Pipelined, 4, 2}, {kind, Pipelined, 8, 4}}
	if f.like.parts > 0 {
		parts := 2
		for parts < 1024 && max(j.In, j.Out)/parts > f.like.chunk(&f.j) {
			parts *= 2
		}
		all = append(all, way{kind, Pipelined, parts, min(parts, f.like.streams)})
	}
	return all
}

// clearly is by how much another kind must be faster for a flip.
const clearly = 1.02

// other reports whether another kind is clearly better for a job.
func (f *flipper) other(j Job) (answer, bool, error) {
	a, err := f.ask(j)
	return a, err == nil && family(a.w.kind) != f.was && (a.instead == 0 || a.instead >= clearly*a.ns), err
}

// between finds by bisection the value nearest to same, for which the answer is that of the
// job, where it is another one. At the value changed it is another one.
func (f *flipper) between(same, changed int, with func(int) Job, a answer) (int, answer, error) {
	for same-changed > 1 || changed-same > 1 {
		middle := (same + changed) / 2
		b, other, err := f.other(with(middle))
		if err != nil {
			return 0, a, err
		}
		if other {
			changed, a = middle, b
		} else {
			same = middle
		}
	}
	return changed, a, nil
}

func (f *flipper) flip(parameter, at string, a answer) Flip {
	return Flip{parameter, at, a.w.kind, a.w.path, int64(a.ns), int64(a.instead)}
}

// mostReuse is how much more reuse flips looks at.
const mostReuse = 64

// reuse looks for other numbers of passes, below and above that of the job.
func (f *flipper) reuse() (out []Flip, err error) {
	if f.j.In == 0 {
		return nil, nil
	}
	with := func(passes int) Job {
		j := f.j
		j.Reuse = passes
		return j
	}
	var tries [][]int
	var below, above []int
	for n := f.j.Reuse / 2; n >= 1; n /= 2 {
		below = append(below, n)
	}
	for n := 2 * f.j.Reuse; n <= mostReuse*f.j.Reuse && n <= maxReuse; n *= 2 {
		above = append(above, n)
	}
	tries = append(tries, below, above)
	for _, values := range tries {
		some, err := f.along("reuse", f.j.Reuse, values, with, strconv.Itoa)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// along tries values further and further from that of the job, until the answer changes.
func (f *flipper) along(parameter string, same int, values []int, with func(int) Job, text func(int) string) ([]Flip, error) {
	for _, n := range values {
		a, other, err := f.other(with(n))
		if err != nil {
			return nil, err
		}
		if other {
			at, a, err := f.between(same, n, with, a)
			return []Flip{f.flip(parameter, text(at), a)}, err
		}
		same = n
	}
	return nil, nil
}

// Sizes that flips looks at.
const (
	leastSize = 4 << 10
	mostSize  = 256 << 20
	mostSteps = 4 // upwards, of a factor of two
)

// size looks for other sizes with the same ratio of input to output, in steps of two.
func (f *flipper) size() (out []Flip, err error) {
	larger := max(f.j.In, f.j.Out)
	with := func(step int) Job { // the job with its sizes times 2^step
		j := f.j
		scale := func(n int) int {
			if step >= 0 {
				return n << step
			}
			return max(4, n>>-step&^3) * min(1, n)
		}
		j.In, j.Out = scale(j.In), scale(j.Out)
		return j
	}
	var below, above []int
	for step := -2; larger>>-step >= leastSize; step -= 2 {
		below = append(below, step)
	}
	for step := 2; step <= mostSteps && larger<<step <= mostSize && valid(with(step)); step += 2 {
		above = append(above, step)
	}
	text := func(step int) string { j := with(step); return sizeText(max(j.In, j.Out)) }
	for _, values := range [][]int{below, above} {
		some, err := f.along("size", 0, values, with, text)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// accesses are those that flips compares.
var accesses = []Access{{Kind: Stream}, {Stride, 32}, {Kind: Random}, {Stencil, 4}, {Kind: Table}}

// access looks for other accesses with another answer.
func (f *flipper) access() ([]Flip, error) {
	var all []Flip
	for _, a := range accesses {
		j := f.j
		j.Access = a
		if a.Kind == f.j.Access.Kind || f.j.In == 0 || !valid(j) {
			continue
		}
		x, other, err := f.other(j)
		if err != nil {
			return nil, err
		}
		if other {
			all = append(all, f.flip("access", a.String(), x))
		}
	}
	return all, nil
}

// text returns a flip as a sentence.
func (f *Flip) text(best string) string {
	value := f.At
	if f.Parameter == "size" {
		value = "of " + f.At
	}
	less := ""
	if f.Instead > 0 {
		less = fmt.Sprintf(" in %s; %s takes %s", duration(f.Predicted), best, duration(f.Instead))
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s, %s%s", f.Parameter, value, f.Kind, f.Path, less))
}

func valid(j Job) bool { return j.Check() == nil }
