package main

import (
	"context"

	"github.com/ferrygpu/ferry"
)

// measured ends a command that measured g until it was done, failed with err, or ctx was
// interrupted. It writes the results so far, and marks them as partial unless the command
// was done. A nil report means that there are none. After an interrupt it does not close
// g, which would wait for what still runs.
func (s *session) measured(ctx context.Context, err error, g *ferry.GPU, r report, asJSON bool) error {
	interrupted := ctx.Err()
	closeGPU := g.Close
	if interrupted != nil {
		err, closeGPU = interrupted, func() error { return nil }
	}
	if r == nil {
		return firstError(err, closeGPU())
	}
	switch {
	case interrupted != nil:
		s.partial = "interrupted"
	case err != nil:
		s.partial = err.Error()
	}
	return firstError(s.writeReport(r, asJSON), err, closeGPU())
}
