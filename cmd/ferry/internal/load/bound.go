package load

import "fmt"

// judge says what bounded a load of some bytes, and why. It is the largest of the parts. The reading
// of files is by the disk if at least half of the bytes came from one. Of a predicted load it is no
// part: the clock stands still meanwhile.
func (p Parts) judge(bytes int64, predicted bool) (Bound, string) {
	took := p.Link + p.Pinning + p.Memory + p.Rest
	of := func(ns int64) string { return short(ns) + " of " + short(took) }
	switch max(p.Link, p.Pinning, p.Memory, p.Rest) {
	case p.Link:
		return ByLink, fmt.Sprintf("bounded by the link: copies were in progress for %s", of(p.Link))
	case p.Pinning:
		return ByPinning, fmt.Sprintf("bounded by page-locking: the link waited for it for %s", of(p.Pinning))
	case p.Memory:
		return ByMemory, fmt.Sprintf("bounded by the allocation of device memory, which took %s", of(p.Memory))
	}
	if predicted {
		return ByCalls, fmt.Sprintf("bounded by calls of the driver and waits between them: %s", of(p.Rest))
	}
	waited := fmt.Sprintf("the link waited for the files for %s", of(p.Rest))
	switch {
	case p.Disk == nil:
		return ByFiles, "bounded by the reading of files: " + waited
	case *p.Disk >= bytes/2:
		return ByDisk, fmt.Sprintf("bounded by the disk: %s, and %s came from it at %s", waited, size(*p.Disk), rate(*p.Disk, took))
	}
	return ByCPU, fmt.Sprintf("bounded by the CPU: %s, which were in memory; %.1f CPUs were busy", waited, float64(p.CPU)/float64(max(took, 1)))
}

// three returns a number with three digits, or all before the point of a larger one.
func three(x float64) string {
	if x >= 999.5 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// short returns a time with three digits.
func short(ns int64) string {
	for _, u := range []struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}} {
		if float64(ns) >= 0.9995*u.ns {
			return three(float64(ns)/u.ns) + " " + u.name
		}
	}
	return fmt.Sprintf("%d ns", ns)
}

// rate returns bytes a second as text.
func rate(bytes, ns int64) string {
	if ns <= 0 {
		return "-"
	}
	if bytes < ns { // less than one in each nanosecond
		return three(float64(bytes)/float64(ns)*1e3) + " MB/s"
	}
	return three(float64(bytes)/float64(ns)) + " GB/s"
}

// size returns bytes as text.
func size(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size {
			return three(float64(n)/float64(u.size)) + " " + u.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
