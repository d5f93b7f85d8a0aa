package rendezvous

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	silence       = 30 * time.Second // of a machine, after which its ranks are lost
	writePatience = 30 * time.Second // for the network to take a message
	closePatience = time.Second      // of Close for the other side
)

// link sends and receives messages over a connection. A goroutine sends, so that take never waits
// for a slow receiver.
type link struct {
	conn net.Conn
	ends chan struct{} // closed when the goroutine that sends has ended

	mu        sync.Mutex
	change    *sync.Cond
	queue     [][]byte
	sending   bool
	finishing bool  // nothing is sent after the queue
	broken    error // why nothing more can be sent
}

// newLink returns a link and starts to send.
func newLink(conn net.Conn) *link {
	if tcp, ok := conn.(*net.TCPConn); ok {
		// A machine that has lost its power or network says nothing.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: silence / 2, Interval: silence / 6, Count: 3})
		limitUnacknowledged(tcp, silence)
	}
	l := &link{conn: conn, ends: make(chan struct{})}
	l.change = sync.NewCond(&l.mu)
	go l.run()
	return l
}

// take queues a message.
func (l *link) take(m message) {
	b := m.wire()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.finishing && l.broken == nil {
		l.queue = append(l.queue, b)
		l.change.Broadcast()
	}
}

// run sends what is queued.
func (l *link) run() {
	defer close(l.ends)
	for {
		b, patience, ok := l.next()
		if !ok {
			break
		}
		_ = l.conn.SetWriteDeadline(time.Now().Add(patience))
		_, err := l.conn.Write(b)
		l.mu.Lock()
		l.sending = false
		l.broken = err
		l.change.Broadcast()
		l.mu.Unlock()
		if err != nil {
			l.conn.Close() // the reader reports it
			return
		}
	}
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// next returns what to send and how long that may take, and false when all is sent.
func (l *link) next() (b []byte, patience time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.finishing {
		l.change.Wait()
	}
	if len(l.queue) == 0 {
		return nil, 0, false
	}
	patience = writePatience
	if l.finishing {
		patience = closePatience
	}
	b, l.queue, l.sending = l.queue[0], l.queue[1:], true
	return b, patience, true
}

// finish lets the link end after what is queued.
func (l *link) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finishing = true
	l.change.Broadcast()
}

// flush returns when all is sent, the link is broken, or the deadline is over.
func (l *link) flush(deadline time.Time) {
	timer := time.AfterFunc(time.Until(deadline), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.change.Broadcast()
	})
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for (len(l.queue) > 0 || l.sending) && l.broken == nil && time.Now().Before(deadline) {
		l.change.Wait()
	}
}

// read returns the next message of at most limit bytes. If the link broke while it sent, the error says
// how.
func (l *link) read(limit int64) (message, error) {
	m, err := readMessage(l.conn, limit)
	if errors.Is(err, net.ErrClosed) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.broken != nil {
			err = l.broken
		}
	}
	return m, err
}

// readMessage reads a message behind its length. Memory grows with what arrives, not with the length
// that is announced.
func readMessage(r io.Reader, limit int64) (message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > limit {
		return message{}, fmt.Errorf("a message of %d bytes, of at most %d", n, limit)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, n); err != nil {
		return message{}, err
	}
	return parseMessage(b.Bytes())
}
