package trace

import (
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// captures has the streams in which captures began.
type captures struct {
	count   atomic.Int64
	mu      sync.Mutex
	streams map[cu.Stream]bool
}

// begin notes that a capture is about to begin in a stream.
func (c *captures) begin(s cu.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams == nil {
		c.streams = map[cu.Stream]bool{}
	}
	c.streams[s] = true
	c.count.Store(int64(len(c.streams)))
}

// end notes that the capture of a stream is over, if it had one.
func (c *captures) end(s cu.Stream) {
	if c.none() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, s)
	c.count.Store(int64(len(c.streams)))
}

// none reports whether no stream captures.
func (c *captures) none() bool { return c.count.Load() == 0 }

// contain reports whether work of a stream may become part of a capture. A wait for an
// event lets other streams join a capture, so the driver is asked.
func (c *captures) contain(d cu.Driver, ctx cu.Context, s cu.Stream) bool {
	if c.none() {
		return false
	}
	status, err := d.StreamIsCapturing(ctx, s)
	return err != nil || status != cu.StreamCaptureStatusNone
}
