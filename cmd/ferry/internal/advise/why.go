package advise

import (
	"fmt"
	"strings"
)

// duration formats nanoseconds with three digits.
func duration(ns int64) string {
	v, unit := float64(ns)/1e3, "us"
	switch {
	case v >= 999500:
		v, unit = v/1e6, "s"
	case v >= 999.5:
		v, unit = v/1e3, "ms"
	}
	digits := 2
	switch {
	case v >= 99.95:
		digits = 0
	case v >= 9.995:
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, v, unit)
}

// why says why an alternative is the best, or loses.
func (r *Report) why(a *Alternative) string {
	best := &r.Alternatives[0]
	if a == best {
		return "best: " + r.merit(a)
	}
	if a.way.kind == WriteCombined && a.Predicted >= best.Predicted && best.way.path == Mapped && 200*(a.Predicted-best.Predicted) < best.Predicted {
		return "no faster than memory that the CPU can also read"
	}
	return fmt.Sprintf("%s more: %s", duration(a.Predicted-best.Predicted), r.fault(a, best))
}

// merit says what makes the best fast.
func (r *Report) merit(a *Alternative) string {
	both := r.job.In > 0 && r.job.Out > 0
	once := r.job.Reuse == 1 && r.job.Access.Kind == Stream
	switch {
	case a.way.path == Mapped && both && once:
		return "each byte crosses the link once, and both directions work at once"
	case a.way.path == Mapped && once:
		return "each byte crosses the link once, and no copy comes before or after the kernel"
	case a.way.path == Mapped:
		return "no copy comes before or after the kernel"
	case a.way.inPlace() && a.way.kind != Managed:
		return "the kernel reads over the link, and the results are copied"
	case a.way.outPlace() && a.way.kind != Managed:
		return "the input is copied once, and the kernel writes results over the link"
	case a.way.path == Pipelined:
		return "copies in, kernels and copies out of different chunks overlap"
	case a.way.path == Staged:
		return "the CPU fills page-locked memory while other chunks are copied and computed"
	case a.way.kind == Pageable:
		return "the data goes through page-locked memory in pieces while the link works"
	case a.way.kind == Managed:
		return "pages move once, and the program has no copies"
	case r.job.Reuse > 1 || r.job.Access.Kind != Stream:
		return "the input crosses the link once, and the kernel then reads device memory"
	}
	return "the copy engine moves all data at the speed of the link"
}

// fault says what an alternative loses by.
func (r *Report) fault(a, best *Alternative) string {
	between := nsOf(a.Terms, termBetween) + nsOf(a.Terms, termSubmit)
	switch w := a.way; {
	case w.path == EachTime:
		return fmt.Sprintf("page-locking and its end take %s in each call", duration(between+nsOf(a.Terms, termReturn)))
	case w.path == OnDemand && nsOf(a.Terms, termPages) == 0:
		return fmt.Sprintf("pages move when touched: %s for the CPU", duration(nsOf(a.Terms, termReturn)+nsOf(a.Terms, termReads)))
	case w.path == OnDemand:
		return fmt.Sprintf("pages move when touched: %s within the kernel, %s for the CPU", duration(nsOf(a.Terms, termPages)), duration(nsOf(a.Terms, termReturn)+nsOf(a.Terms, termReads)))
	case w.kind == Managed:
		return fmt.Sprintf("moving pages takes longer than copies: all but the kernel takes %s", duration(a.Predicted-nsOf(a.Terms, "kernel")))
	case w.inPlace() || w.outPlace():
		return r.linkFault(a)
	case w.kind == Pageable:
		return fmt.Sprintf("the CPU copies through page-locked memory, %s of it while the device waits", duration(between))
	case w.path == Pipelined:
		return fmt.Sprintf("calls, launches and small copies of %d chunks; the device is idle for %s", w.parts, duration(between+nsOf(a.Terms, termReturn)))
	}
	return copyFault(a, best)
}

// linkFault says what a kernel that uses host memory loses by.
func (r *Report) linkFault(a *Alternative) string {
	link := nsOf(a.Terms, termLink)
	if 100*link < a.Predicted && a.way.path != Mapped {
		return "its other data is copied before or after the kernel"
	}
	text := fmt.Sprintf("the kernel waits %s for the link", duration(link))
	var because []string
	if a.way.inPlace() && r.job.Reuse > 1 {
		because = append(because, fmt.Sprintf("each of %d passes crosses it", r.job.Reuse))
	}
	if a.way.inPlace() && r.job.Access.Kind == Table {
		because = append(because, "each block reads the table over it")
	}
	if a.way.inPlace() && (r.job.Access.Kind == Random || r.job.Access.Kind == Stride) {
		because = append(because, "a read of 4 bytes moves 32 or more")
	}
	if r.job.Threads > 0 && r.job.Threads < 32768 {
		because = append(because, fmt.Sprintf("%d threads keep few requests in flight", r.job.Threads))
	}
	if a.way.path != Mapped {
		because = append(because, "its other data is copied before or after")
	}
	if len(because) == 0 {
		return text
	}
	return text + ": " + strings.Join(because, ", ")
}

// copyFault says what copies and a kernel in one stream lose by.
func copyFault(a, best *Alternative) string {
	in, kernel, out := nsOf(a.Terms, "copy in"), nsOf(a.Terms, "kernel"), nsOf(a.Terms, "copy out")
	var parts []string
	for _, t := range []Term{{"copy in", in, ""}, {"kernel", kernel, ""}, {"copy out", out, ""}} {
		if t.Ns > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", t.Name, duration(t.Ns)))
		}
	}
	text := strings.Join(parts, ", ") + " follow each other"
	if best.way.path == Pipelined {
		text += ", chunks overlap them"
	}
	return text
}
