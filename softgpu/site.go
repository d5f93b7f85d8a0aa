package softgpu

import (
	"fmt"
	"runtime"
	"strings"
)

// site is a call: the stack from there up, as program counters, which take a
// microsecond to note. Names are looked up for a report only.
type site []uintptr

const siteDepth = 16

// here is where the caller of this package's caller is.
func here() site {
	var pcs [siteDepth]uintptr
	return append(site(nil), pcs[:runtime.Callers(3, pcs[:])]...)
}

// freedBy is the call that frees r now, or that queued the free.
func (r *region) freedBy() site {
	if r.release != nil {
		return r.release.site
	}
	return here()
}

const ownCode = "github.com/ferrygpu/ferry"

// words is the first function that is not Ferry's own, or is a test.
func (s site) words() string {
	if len(s) == 0 {
		return ""
	}
	frames := runtime.CallersFrames(s)
	for {
		f, more := frames.Next()
		own := f.Function == ownCode || strings.HasPrefix(f.Function, ownCode+".") || strings.HasPrefix(f.Function, ownCode+"/")
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") && (!own || strings.HasSuffix(f.File, "_test.go")) {
			return fmt.Sprintf(" by %s at %s:%d", f.Function, f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}
