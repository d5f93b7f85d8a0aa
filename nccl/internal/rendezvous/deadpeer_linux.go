package rendezvous

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged ends a connection whose other machine acknowledges nothing for a time, though
// there is something to send. Keep-alive probes are sent only if there is nothing, and the kernel
// alone would try for a quarter of an hour.
func limitUnacknowledged(conn *net.TCPConn, limit time.Duration) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}
