package rendezvous

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSilence: the kernel has the limits after which a silent machine counts as gone.
func TestSilence(t *testing.T) {
	listener := listenHere(t)
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l := newLink(conn)
	defer l.finish()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for option, want := range map[int]int{unix.TCP_USER_TIMEOUT: 30000, unix.TCP_KEEPIDLE: 15, unix.TCP_KEEPINTVL: 5, unix.TCP_KEEPCNT: 3} {
		_ = raw.Control(func(fd uintptr) {
			if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option); got != want || err != nil {
				t.Errorf("option %d is %d, %v, want %d", option, got, err, want)
			}
		})
	}
}

// TestBrokenWhileSending: the reader of a link that could not send says why.
func TestBrokenWhileSending(t *testing.T) {
	conn, err := net.Dial("tcp", listenHere(t).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(brokenWriter{conn})
	l.take(message{kind: bye})
	if _, err := l.read(100); err != errPlanted {
		t.Errorf("the link reads %v, want %v", err, errPlanted)
	}
}

var errPlanted = errors.New("planted")

// brokenWriter is a connection that cannot send.
type brokenWriter struct{ net.Conn }

func (brokenWriter) Write([]byte) (int, error) { return 0, errPlanted }
