package softgpu

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/internal/callsite"
)

// site returns the line of the program that makes the call in progress. It returns no place if
// all callers are Ferry's own code, or if "ferry run" makes the call.
func (s *space) site() callsite.Place {
	p := s.sites.Place(s.sites.Find(1, nil))
	if p.Own() || strings.HasPrefix(p.Func, "github.com/ferrygpu/ferry/internal/measure/runner.") && !strings.HasSuffix(p.File, "_test.go") {
		return callsite.Place{}
	}
	return p
}

// freeSite returns the line that frees r now, or that queued the free.
func (s *space) freeSite(r *region) callsite.Place {
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
