//go:build !linux

package rendezvous

import (
	"net"
	"time"
)

// limitUnacknowledged does nothing: the system has its own limit.
func limitUnacknowledged(*net.TCPConn, time.Duration) {}
