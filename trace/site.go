package trace

import "github.com/ferrygpu/ferry/internal/callsite"

// site returns the number of the line that made the call of d's method. A new number is
// written to the recording.
func (r *Recorder) site() int {
	return r.sites.Find(4, r.addSite) // skips Callers, Find, site, begin and the method
}

// place is a line of the program.
type place = callsite.Place
