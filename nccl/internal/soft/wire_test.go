package soft

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/nccl/internal/rendezvous"
)

// linked returns a communicator of two ranks, whose rank 1 is at the other end of a connection.
func linked(t *testing.T, timeout time.Duration) (*comm, *link, net.Conn) {
	c := newComm(nil, &backend.Config{Session: rendezvous.Local(2)[0], Name: "dp", Timeout: timeout})
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	l := newLink(c, 1, here)
	c.wire = &wire{comm: c, remote: []bool{false, true}}
	c.wire.add(l)
	return c, l, there
}

// TestTakesNoData: a rank that takes no data does not hold up one that sends: neither longer than the timeout
// nor when the communicator fails or is aborted.
func TestTakesNoData(t *testing.T) {
	for name, end := range map[string]func(*comm){
		"timeout": nil,
		"failure": func(c *comm) { c.setErr(errors.New("planned")) },
		"abort":   func(c *comm) { c.Abort() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 50 * time.Millisecond
			if end != nil {
				timeout = 0
			}
			c, l, _ := linked(t, timeout)
			if end != nil {
				time.AfterFunc(20*time.Millisecond, func() { end(c) })
			}
			sent := make(chan error, 1)
			go func() { sent <- l.send(&message{kind: kindData, data: make([]byte, 3)}) }()
			select {
			case err := <-sent:
				if err == nil || name != "abort" && !strings.Contains(err.Error(), "rank 1 has taken no data for ") {
					t.Errorf("got %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("it still sends")
			}
			if err := c.Err(); end == nil && (err == nil || !strings.Contains(err.Error(), "rank 1 has taken no data for 50ms")) {
				t.Errorf("the communicator: got %v", err)
			}
		})
	}
}
