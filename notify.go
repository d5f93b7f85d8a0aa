package ferry

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// Notify is a channel that is closed when the stream has come to this point. The
// stream goes on at once: code after the receive runs on the receiver's own
// goroutine, may take its time, and may call the driver, Close and Slice, which a
// function of [Stream.HostFunc] must not. It says when, not whether all is well:
// errors of the work are [Stream.Wait]'s. When the context is lost the stream
// never comes here and the channel stays open, so receive in a select with the
// end of a context, and ask Done. In a capture it is refused: a graph runs more
// than once.
func (s *Stream) Notify() (<-chan struct{}, error) {
	q, err := s.enter("ask for a notice")
	if err != nil {
		return nil, err
	}
	c := make(chan struct{})
	if q.c != nil {
		err = &refusal{cu.ErrorStreamCaptureUnsupported, "it captures, and a channel is closed once only: use HostFunc"}
	} else {
		err = q.g.driver.LaunchHostFunc(q.g.ctx, q.handle, func() { close(c) })
	}
	q.finish(err == nil)
	if err != nil {
		return nil, fmt.Errorf("ask for a notice on %v: %w", q, err)
	}
	return c, nil
}
