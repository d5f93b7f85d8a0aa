package softgpu

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/internal/callsite"
)

// site is a line of the program that made a call. It is looked for when a text needs it.
type site struct {
	of *callsite.Finder
	id int
}

// site returns the line of the program that makes the call in progress.
func (s *space) site() site { return site{&s.sites, s.sites.Find(1, nil)} }

// place returns the line. It returns none if all callers were Ferry's own code, or if "ferry run"
// made the call.
func (l site) place() callsite.Place {
	if l.of == nil {
		return callsite.Place{}
	}
	p := l.of.Place(l.id)
	if p.Own() || strings.HasPrefix(p.Func, "github.com/ferrygpu/ferry/internal/measure/runner.") && !strings.HasSuffix(p.File, "_test.go") {
		return callsite.Place{}
	}
	return p
}

// freeSite returns the line that frees r now, or that queued the free.
func (s *space) freeSite(r *region) site {
	if r.streamFree != nil {
		return r.streamFree.site
	}
	return s.site()
}

// byLine names the line and the function of a call, for the end of a sentence.
func byLine(p callsite.Place) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf(" at %v in %s", p, p.Func)
}

// atLine returns "main.go:62", or "" for no place.
func atLine(p callsite.Place) string {
	if p.File == "" {
		return ""
	}
	return p.String()
}
