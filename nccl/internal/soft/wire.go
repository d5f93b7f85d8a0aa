package soft

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

// wire is the connections of a rank to those of other processes. Of two ranks the higher one connects
// to the lower one. Each shows that it knows the other's secret, which went through the session.
type wire struct {
	comm     *comm
	remote   []bool // by rank
	far      []bool // by rank: on another computer
	secret   [32]byte
	listener net.Listener // nil if nobody connects
	came     chan *link

	mu       sync.Mutex
	links    []*link
	taken    map[int]bool          // higher ranks that have connected
	greeting map[net.Conn]struct{} // connections that have not shown yet who they are
	over     bool                  // close was called
	reads    bool                  // the links read, and so end when they are closed
}

// wireCard is how others connect to a rank.
type wireCard struct {
	Addresses []string
	Secret    []byte
}

// newWire listens, if a higher rank is in another process.
func newWire(c *comm, cards []card) (*wire, error) {
	w := &wire{comm: c, remote: make([]bool, c.size), far: make([]bool, c.size), came: make(chan *link, c.size), taken: map[int]bool{}, greeting: map[net.Conn]struct{}{}}
	rand.Read(w.secret[:])
	address, listens := "127.0.0.1:0", false
	for rank, x := range cards {
		w.remote[rank] = x.Process != c.process
		w.far[rank] = x.Host != cards[c.rank].Host
		if w.remote[rank] && rank > c.rank {
			listens = true
			if w.far[rank] {
				address = ":0"
			}
		}
	}
	if !listens {
		return w, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for other ranks: %w", err)
	}
	w.listener = l
	go w.accept()
	return w, nil
}

// card returns how others connect.
func (w *wire) card() wireCard {
	x := wireCard{Secret: w.secret[:]}
	if w.listener == nil {
		return x
	}
	at := w.listener.Addr().(*net.TCPAddr)
	if !at.IP.IsUnspecified() {
		x.Addresses = []string{at.String()}
		return x
	}
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
			x.Addresses = append(x.Addresses, net.JoinHostPort(ip.IP.String(), fmt.Sprint(at.Port)))
		}
	}
	return x
}

// connect connects to the lower ranks of other processes, and waits for the higher ones.
func (w *wire) connect(ctx context.Context, cards []wireCard) error {
	c := w.comm
	waits := 0
	for rank, remote := range w.remote {
		switch {
		case remote && rank > c.rank:
			waits++
		case remote:
			l, err := w.dial(ctx, rank, w.reachable(rank, cards[rank]))
			if err != nil {
				return fmt.Errorf("connect to rank %d: %w", rank, err)
			}
			w.add(l)
		}
	}
	for range waits {
		select {
		case l := <-w.came:
			w.add(l)
		case <-ctx.Done():
			return fmt.Errorf("wait for the connections of %s: %w", rankList(w.unconnected()), context.Cause(ctx))
		}
	}
	if w.listener != nil {
		w.listener.Close()
	}
	w.mu.Lock()
	w.reads = true
	w.mu.Unlock()
	for _, l := range w.links {
		go l.read()
	}
	return c.Err() // what a rank may have told meanwhile
}

func (w *wire) add(l *link) {
	w.comm.setPeer(l.rank, l)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links = append(w.links, l)
}

func (w *wire) unconnected() (ranks []int) {
	for rank, remote := range w.remote {
		if remote && w.comm.peers[rank] == nil {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// helloTime is how long the other side of a new connection may take to show who it is.
const helloTime = 10 * time.Second

// Limits of accept.
const (
	mostStrangers = 64                    // connections that have not shown yet who they are, beside one for each rank
	acceptAgain   = 10 * time.Millisecond // after an error, such as too many open files
)

// accept takes connections of higher ranks, until the listener is closed.
func (w *wire) accept() {
	for {
		conn, err := w.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptAgain)
		case !w.begin(conn):
			conn.Close()
		default:
			go func() {
				rank, err := w.greet(conn)
				w.take(conn, rank, err)
			}()
		}
	}
}

// begin notes a new connection. It returns false if there are too many, or the wire is closed.
func (w *wire) begin(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || len(w.greeting) >= w.comm.size+mostStrangers {
		return false
	}
	w.greeting[conn] = struct{}{}
	return true
}

// take takes the connection of a higher rank, of each one. It closes others.
func (w *wire) take(conn net.Conn, rank int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.greeting, conn)
	if err != nil || w.over || rank <= w.comm.rank || rank >= w.comm.size || !w.remote[rank] || w.taken[rank] {
		conn.Close()
		return
	}
	w.taken[rank] = true
	w.came <- newLink(w.comm, rank, conn)
}

// greet reads who has connected: it must know the secret.
func (w *wire) greet(conn net.Conn) (rank int, err error) {
	conn.SetDeadline(time.Now().Add(helloTime))
	defer conn.SetDeadline(time.Time{})
	var nonce [nonceBytes]byte
	rand.Read(nonce[:])
	if _, err := conn.Write(nonce[:]); err != nil {
		return 0, err
	}
	var reply [4 + sha256.Size + nonceBytes]byte
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return 0, err
	}
	if !hmac.Equal(reply[4:4+sha256.Size], proof(w.secret[:], nonce[:], reply[:4])) {
		return 0, errors.New("a connection did not know the secret")
	}
	_, err = conn.Write(proof(w.secret[:], reply[4+sha256.Size:], listenerProof))
	return int(binary.LittleEndian.Uint32(reply[:])), err
}

const nonceBytes = 32

// listenerProof is what a listener signs; a rank that connects signs its number, which is shorter.
var listenerProof = []byte("listener")

func proof(secret, nonce, text []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(nonce)
	h.Write(text)
	return h.Sum(nil)
}

// reachable returns to with the addresses that can be the rank's: on another computer, the loopback interface is
// not.
func (w *wire) reachable(rank int, to wireCard) wireCard {
	if w.far[rank] {
		to.Addresses = slices.DeleteFunc(slices.Clone(to.Addresses), func(address string) bool {
			at, err := netip.ParseAddrPort(address)
			return err == nil && at.Addr().IsLoopback()
		})
	}
	return to
}

// dial connects to a rank, at the first of its addresses where it answers.
func (w *wire) dial(ctx context.Context, rank int, to wireCard) (*link, error) {
	if len(to.Addresses) == 0 {
		return nil, errors.New("it has no address that this computer can reach")
	}
	var errs []error
	for _, address := range to.Addresses {
		conn, err := (&net.Dialer{Timeout: helloTime}).DialContext(ctx, "tcp", address)
		if err == nil {
			if err = w.introduce(conn, to.Secret); err == nil {
				return newLink(w.comm, rank, conn), nil
			}
			conn.Close()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// introduce says which rank this is, and checks that the listener knows the secret.
func (w *wire) introduce(conn net.Conn, secret []byte) error {
	conn.SetDeadline(time.Now().Add(helloTime))
	defer conn.SetDeadline(time.Time{})
	var nonce, own [nonceBytes]byte
	rand.Read(own[:])
	if _, err := io.ReadFull(conn, nonce[:]); err != nil {
		return err
	}
	reply := binary.LittleEndian.AppendUint32(nil, uint32(w.comm.rank))
	if _, err := conn.Write(slices.Concat(reply, proof(secret, nonce[:], reply), own[:])); err != nil {
		return err
	}
	var answer [sha256.Size]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	if !hmac.Equal(answer[:], proof(secret, own[:], listenerProof)) {
		return fmt.Errorf("%v is not the rank: it does not know the secret", conn.RemoteAddr())
	}
	return nil
}

// drainTime is how long an aborted connection still reads: without that, the system would drop what was sent last.
const drainTime = 100 * time.Millisecond

// close ends the connections when the other ranks have closed theirs, or after helloTime; if not gently,
// after drainTime. A nil wire has none.
func (w *wire) close(gently bool) {
	if w == nil {
		return
	}
	if w.listener != nil {
		w.listener.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for conn := range w.greeting {
		conn.Close()
	}
	for len(w.came) > 0 { // Open has failed before it took them
		(<-w.came).conn.Close()
	}
	wait := drainTime
	if gently {
		wait = helloTime
	}
	for _, l := range w.links {
		if w.reads {
			l.finish(wait)
		} else {
			l.conn.Close()
		}
	}
}

// hurry gives messages that are being sent, and later ones, only abortTime. A nil wire has none.
func (w *wire) hurry() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.links {
		l.hurry()
	}
}

// link is a connection to a rank.
type link struct {
	comm *comm
	rank int
	conn net.Conn
	mu   sync.Mutex // held during a write

	clock   sync.Mutex // held while the deadline of writes changes
	hurried bool
}

func newLink(c *comm, rank int, conn net.Conn) *link { return &link{comm: c, rank: rank, conn: conn} }

// A message on the wire: its bytes after this head, then the data.
const (
	headBytes  = 8 + 1 + 1 + 4 + 4 + 8 + 4 + 4
	mostReason = 64 << 10 // bytes of the text of kindFail
)

// mostBytes returns how many bytes of data a message of a kind has at most. An unknown kind has -1.
func mostBytes(kind byte) int {
	switch kind {
	case kindAnnounce:
		return noticeBytes
	case kindData:
		return math.MaxInt
	case kindFail:
		return mostReason
	case kindBye:
		return 0
	}
	return -1
}

func (l *link) send(m *message) error {
	head := make([]byte, 0, headBytes)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(m.data)))
	pair := byte(0)
	if m.key.pair {
		pair = 1
	}
	head = append(head, m.kind, pair)
	head = binary.LittleEndian.AppendUint32(head, uint32(m.key.src))
	head = binary.LittleEndian.AppendUint32(head, uint32(m.key.dst))
	head = binary.LittleEndian.AppendUint64(head, m.key.number)
	head = binary.LittleEndian.AppendUint32(head, uint32(m.member))
	head = binary.LittleEndian.AppendUint32(head, uint32(m.step))
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.write(head, m.data)
	if err != nil { // a part of the message may be sent, so nothing can follow
		l.comm.lost(l.rank, err)
		l.conn.Close()
	}
	return err
}

// chunkBytes is how much the other side must take within the timeout of the communicator.
const chunkBytes = 1 << 20

// write sends the head and the data of a message in chunks.
func (l *link) write(head, data []byte) error {
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), chunkBytes)
		buffers := net.Buffers{head, data[:n]}
		limit := l.extend()
		if _, err := buffers.WriteTo(l.conn); errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("rank %d has taken no data for %v", l.rank, limit)
		} else if err != nil {
			return err
		}
		head, data = nil, data[n:]
	}
	return nil
}

// extend sets the deadline of the next write, and returns how long it may take: 0 if there is no limit.
func (l *link) extend() (limit time.Duration) {
	l.clock.Lock()
	defer l.clock.Unlock()
	limit = l.comm.config.Timeout
	if l.hurried {
		limit = abortTime
	}
	var end time.Time
	if limit > 0 {
		end = time.Now().Add(limit)
	}
	l.conn.SetWriteDeadline(end)
	return limit
}

// hurry gives the write that is in progress, and each later one, only abortTime.
func (l *link) hurry() {
	l.clock.Lock()
	defer l.clock.Unlock()
	if !l.hurried {
		l.hurried = true
		l.conn.SetWriteDeadline(time.Now().Add(abortTime))
	}
}

// read delivers messages until the connection ends.
func (l *link) read() {
	defer l.conn.Close()
	in := bufio.NewReaderSize(l.conn, 64<<10)
	for {
		m, err := readMessage(in)
		if err != nil {
			l.comm.lost(l.rank, err)
			return
		}
		m.from = l.rank
		l.comm.deliver(m)
	}
}

func readMessage(in io.Reader) (*message, error) {
	var h [headBytes]byte
	if _, err := io.ReadFull(in, h[:]); err != nil {
		return nil, err
	}
	n, most := binary.LittleEndian.Uint64(h[:]), mostBytes(h[8])
	if most < 0 || n > uint64(most) {
		return nil, fmt.Errorf("a message of kind %d with %d bytes", h[8], n)
	}
	int32At := func(i int) int { return int(binary.LittleEndian.Uint32(h[i:])) }
	m := &message{
		kind: h[8], key: key{h[9] == 1, int32At(10), int32At(14), binary.LittleEndian.Uint64(h[18:])},
		member: int32At(26), step: int32At(30),
	}
	var err error
	m.data, err = readData(in, int(n))
	return m, err
}

// readData reads n bytes. It takes memory as they come: n is what another process says.
func readData(in io.Reader, n int) ([]byte, error) {
	data := make([]byte, min(n, chunkBytes))
	for have := 0; ; {
		if _, err := io.ReadFull(in, data[have:]); err != nil {
			return nil, err
		}
		if have = len(data); have == n {
			return data, nil
		}
		more := make([]byte, min(n, 2*have))
		copy(more, data)
		data = more
	}
}

// finish says that nothing more is sent, and gives the other side some time to say so, too.
func (l *link) finish(wait time.Duration) {
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
		l.conn.SetReadDeadline(time.Now().Add(wait))
		return
	}
	l.conn.Close()
}
