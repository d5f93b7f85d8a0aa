package rendezvous

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/internal/printable"
)

const (
	handshakePatience = 10 * time.Second
	moreStrangers     = 64 // connections that have proved nothing, beyond one for each rank
)

// door is where rank 0 lets the other ranks in.
type door struct {
	listener net.Listener
	hub      *hub
	config   *config
	workers  sync.WaitGroup // of accept and of handshakes
	readers  sync.WaitGroup // of ranks

	mu        sync.Mutex
	closed    bool
	strangers []net.Conn     // that have proved nothing, oldest first
	refused   map[string]int // how often, by reason
}

// serve lets ranks in until the door is closed.
func (d *door) serve() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			if d.isClosed() || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(20 * time.Millisecond) // too many open files
			continue
		}
		if !d.enter(conn) {
			conn.Close()
			return
		}
		d.workers.Go(func() { d.admit(conn) })
	}
}

func (d *door) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// enter notes a connection that has proved nothing yet. If there are too many, the oldest ends: a
// rank needs milliseconds, and connects again.
func (d *door) enter(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	if len(d.strangers) >= d.config.Size+moreStrangers {
		d.strangers[0].Close()
		d.strangers = d.strangers[1:]
	}
	d.strangers = append(d.strangers, conn)
	return true
}

// leave forgets a connection that is no stranger's any more.
func (d *door) leave(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.strangers, conn); i >= 0 {
		d.strangers = slices.Delete(d.strangers, i, i+1)
	}
}

// admit makes a connection that of a rank, or ends it.
func (d *door) admit(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(d.config.handshake))
	h, refusal := d.handshake(conn)
	if refusal != nil {
		if refusal.reason != "" {
			d.note(conn, refusal.reason)
		}
		if refusal.text != "" {
			kind := byte(replyRefuse)
			if refusal.later {
				kind = replyLater
			}
			_, _ = conn.Write((&reply{version: d.config.version, kind: kind, text: refusal.text}).wire())
			d.drain(conn)
		}
		d.leave(conn)
		conn.Close()
		return
	}
	d.leave(conn)
	_ = conn.SetDeadline(time.Time{})
	l := newLink(conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		l.finish()
		conn.Close()
		return
	}
	d.hub.seat(h.rank, l, process(h))
	d.readers.Go(func() { d.read(h.rank, l) })
}

// drain reads what a refused process still sends, so that closing does not destroy the refusal.
func (d *door) drain(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 4096))
	}
}

// refusal is why a connection is refused.
type refusal struct {
	text   string // for the other side
	reason string // for the log and the errors of rank 0
	later  bool
}

// refuse returns a refusal whose text both sides get.
func refuse(format string, args ...any) *refusal {
	text := fmt.Sprintf(format, args...)
	return &refusal{text: text, reason: text}
}

// process names the process behind a hello.
func process(h *hello) string { return printable.Name(h.who) }

// handshake reads who connects, and makes it prove that it has the token. The rank has its place
// in the hub then.
func (d *door) handshake(conn net.Conn) (*hello, *refusal) {
	c := d.config
	h, err := readHello(conn, c.version)
	switch {
	case errors.Is(err, errStranger):
		return nil, &refusal{reason: "a connection that is no rank of Ferry"}
	case err != nil:
		return nil, &refusal{reason: "a connection that did not say which rank it is"}
	case h.version != c.version:
		return nil, refuse("a rank with version %d of the rendezvous, rank 0 has version %d: use the same Ferry on all ranks", h.version, c.version)
	case h.token && c.token == "":
		return nil, refuse("rank %d (%s), which has FERRY_NCCL_TOKEN, and rank 0 has none: set the same on all ranks", h.rank, process(h))
	case !h.token && c.token != "":
		return nil, refuse("rank %d (%s), which has no FERRY_NCCL_TOKEN, and rank 0 has one: set the same on all ranks", h.rank, process(h))
	}
	nonce := newNonce()
	if _, err := conn.Write((&reply{version: c.version, kind: replyChallenge, token: c.token != "", proof: nonce[:]}).wire()); err != nil {
		return nil, &refusal{}
	}
	var proof [sha256.Size]byte
	if _, err := io.ReadFull(conn, proof[:]); err != nil {
		return nil, &refusal{reason: "a connection that did not prove FERRY_NCCL_TOKEN"}
	}
	if !hmac.Equal(proof[:], prove(c.token, roleRank, h, nonce[:])) {
		return nil, refuse("rank %d (%s), which has another FERRY_NCCL_TOKEN than rank 0: set the same on all ranks", h.rank, process(h))
	}
	if r := d.place(h); r != nil {
		return nil, r
	}
	if _, err := conn.Write((&reply{version: c.version, kind: replyAccept, proof: prove(c.token, roleRoot, h, nonce[:])}).wire()); err != nil {
		d.hub.forget(h.rank)
		return nil, &refusal{}
	}
	return h, nil
}

// place reserves the place of a rank that has the token.
func (d *door) place(h *hello) *refusal {
	switch {
	case h.size != d.config.Size:
		return refuse("rank %d (%s), which has %d ranks (WORLD_SIZE), and rank 0 (%s) has %d", h.rank, process(h), h.size, d.config.who, d.config.Size)
	case h.rank >= h.size:
		return refuse("rank %d (%s) of %d ranks", h.rank, process(h), h.size)
	}
	other, again := d.hub.expect(h.rank, process(h))
	switch {
	case again:
		return &refusal{text: fmt.Sprintf("rank 0 (%s) is still in an earlier session", d.config.who), later: true}
	case other != "":
		return refuse("a second rank %d (%s), the first is %s: RANK must differ", h.rank, process(h), other)
	}
	return nil
}

// note counts a refusal, and logs the first of its kind.
func (d *door) note(conn net.Conn, reason string) {
	d.mu.Lock()
	known := d.refused[reason] > 0
	if known || len(d.refused) < 16 {
		d.refused[reason]++
	}
	log := d.config.log != nil && !known && len(d.refused) < 16 && !d.closed
	d.mu.Unlock()
	if log {
		d.config.log(fmt.Sprintf("rank 0 at %s refused %s; it came from %s", d.listener.Addr(), reason, conn.RemoteAddr()))
	}
}

// refusals lists what was refused.
func (d *door) refusals() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(d.refused)) {
		if n := d.refused[reason]; n > 1 {
			reason = fmt.Sprintf("%s (%d times)", reason, n)
		}
		all = append(all, reason)
	}
	return strings.Join(all, "; ")
}

// read handles the messages of a rank until its connection ends.
func (d *door) read(rank int, l *link) {
	for {
		m, err := l.read(largest(d.config.Size, false))
		if err == nil {
			err = m.checkFor()
		}
		if err != nil {
			if !d.isClosed() {
				d.hub.lose(rank, connectionEnded(err))
			}
			l.finish()
			l.conn.Close()
			return
		}
		d.hub.take(rank, m)
		if m.kind == bye {
			l.finish()
			<-l.ends
			l.conn.Close()
			return
		}
	}
}

// connectionEnded says how a connection has ended.
func connectionEnded(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "its connection has ended"
	}
	return "its connection broke: " + printable.Line(err.Error())
}

// close tells all ranks that rank 0 needs them no longer, and waits a moment until they know.
func (d *door) close() {
	d.mu.Lock()
	d.closed = true
	for _, conn := range d.strangers {
		conn.Close()
	}
	d.mu.Unlock()
	d.listener.Close()
	links := d.hub.links()
	for _, l := range links {
		l.take(message{kind: bye})
		l.finish()
		_ = l.conn.SetDeadline(time.Now().Add(closePatience))
	}
	d.readers.Wait()
	for _, l := range links {
		l.conn.Close()
	}
	d.workers.Wait()
}
