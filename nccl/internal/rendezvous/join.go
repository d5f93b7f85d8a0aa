package rendezvous

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// DefaultTimeout is how long Join waits for all ranks if Options do not say.
const DefaultTimeout = 5 * time.Minute

// Options are settings of Join. The zero value is the default.
type Options struct {
	Token   string            // what all ranks know, such as the value of FERRY_NCCL_TOKEN; "" on one machine alone
	Timeout time.Duration     // how long to wait for all ranks; 0 means DefaultTimeout, less than 0 for ever
	Log     func(line string) // gets a line for each kind of connection that rank 0 refuses; nil drops them
}

// config is what a rank needs in order to join.
type config struct {
	World
	token     string
	log       func(string)
	who       string
	version   uint16
	handshake time.Duration
	listener  net.Listener // of rank 0; nil makes one
}

// Join meets all ranks of a world, and returns when all have come. If some do not come in time, the
// error is a [MissingError] that names them, and if the process of one ends meanwhile, a
// [LostError]. Rank 0 listens at the address of the world: on all interfaces if there is a token and
// the address is not that of the loopback interface, else there alone. An address of another machine
// without a token is refused. A world of one rank uses no network.
func Join(ctx context.Context, w World, o *Options) (*Session, error) {
	if o == nil {
		o = &Options{}
	}
	timeout := o.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	c := &config{World: w, token: o.Token, log: o.Log, who: thisProcess(), version: protocol, handshake: handshakePatience}
	return c.join(ctx)
}

// thisProcess names this process to others.
func thisProcess() string {
	name, err := os.Hostname()
	if err != nil {
		name = "a machine without a name"
	}
	return fmt.Sprintf("process %d on %s", os.Getpid(), name)
}

// join implements Join.
func (c *config) join(ctx context.Context) (*Session, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	switch {
	case c.Size == 1:
		return Local(1)[0], nil
	case c.Rank == 0:
		return c.host(ctx)
	}
	return c.visit(ctx)
}

// check refuses a world that cannot be.
func (c *config) check() error {
	switch {
	case c.Size < 1 || c.Size > maxSize:
		return fmt.Errorf("join: %d ranks, must be 1 to %d", c.Size, maxSize)
	case c.Rank < 0 || c.Rank >= c.Size:
		return fmt.Errorf("join: rank %d of %d ranks", c.Rank, c.Size)
	case c.Size == 1:
		return nil
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fmt.Errorf("join: the address of rank 0: %w", err)
	}
	if c.token == "" && !isLoopback(host) {
		return fmt.Errorf("join: rank 0 is at %s, which others can reach: set FERRY_NCCL_TOKEN to the same secret on all ranks (without it rank 0 must be at 127.0.0.1)", c.Addr)
	}
	return nil
}

// isLoopback reports whether a host is this machine by its name alone.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// host is join of rank 0.
func (c *config) host(ctx context.Context) (*Session, error) {
	if err := c.listen(ctx); err != nil {
		return nil, err
	}
	h := newHub(c.Size)
	d := &door{listener: c.listener, hub: h, config: c, refused: map[string]int{}}
	p := newPort()
	p.toHub, p.end = func(m message) { h.take(0, m) }, d.close
	s := p.openFirst(0, c.Size)
	h.seat(0, p, c.who)
	d.workers.Go(d.serve)
	if _, err := s.gather(ctx, joinKey, nil); err != nil {
		if missing, ok := errors.AsType[*MissingError](err); ok {
			missing.Refused = d.refusals()
		}
		s.Close()
		return nil, fmt.Errorf("join as rank 0: %w", err)
	}
	return s, nil
}

// listen opens the port of rank 0.
func (c *config) listen(ctx context.Context) (err error) {
	if c.listener != nil {
		return nil
	}
	addr := c.Addr
	if host, port, _ := net.SplitHostPort(c.Addr); !isLoopback(host) {
		addr = ":" + port
	}
	c.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("join as rank 0: %w (FERRY_NCCL_PORT on all ranks chooses another port; only one process may have RANK=0)", err)
	}
	return nil
}

// visit is join of another rank.
func (c *config) visit(ctx context.Context) (*Session, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("join as rank %d: %w", c.Rank, err)
	}
	l := newLink(conn)
	ended := make(chan struct{})
	p := newPort()
	s := p.openFirst(c.Rank, c.Size)
	p.toHub = l.take
	p.end = func() {
		l.finish()
		_ = conn.SetDeadline(time.Now().Add(closePatience))
		<-ended
		conn.Close()
		<-l.ends
	}
	go func() {
		defer close(ended)
		c.read(l, p)
	}()
	if _, err := s.gather(ctx, joinKey, nil); err != nil {
		s.Close()
		return nil, fmt.Errorf("join as rank %d: %w", c.Rank, err)
	}
	return s, nil
}

// read handles the messages of rank 0 until the connection ends.
func (c *config) read(l *link, p *port) {
	for {
		m, err := l.read(largest(c.Size, true))
		if err == nil && m.kind == bye {
			p.rootLeft()
			l.finish()
			return
		}
		if err == nil {
			err = p.hand(m)
		}
		if err != nil {
			p.rootLost("at " + c.Addr + ": " + connectionEnded(err))
			l.finish()
			l.conn.Close()
			return
		}
	}
}

// refusedError is the error of a rank that rank 0 has refused.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// connect connects to rank 0 until that accepts or refuses.
func (c *config) connect(ctx context.Context) (net.Conn, error) {
	began := time.Now()
	wait := 10 * time.Millisecond
	for {
		conn, err := c.connectOnce(ctx)
		if err == nil {
			return conn, nil
		}
		if refused, ok := errors.AsType[*refusedError](err); ok {
			return nil, refused
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		case <-ctx.Done():
			return nil, fmt.Errorf("rank 0 at %s did not answer in %v: %w: %w", c.Addr, time.Since(began).Round(time.Millisecond), ctx.Err(), err)
		}
	}
}

// connectOnce connects to rank 0. The error is a refusedError if trying again is of no use.
func (c *config) connectOnce(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.handshake)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = c.introduce(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// introduce says to rank 0 who this is, and proves that both have the same token.
func (c *config) introduce(conn net.Conn) error {
	h := &hello{version: c.version, token: c.token != "", rank: c.Rank, size: c.Size, nonce: newNonce(), who: c.who}
	if _, err := conn.Write(h.wire()); err != nil {
		return err
	}
	challenge, err := c.reply(conn, replyChallenge)
	if err != nil {
		return err
	}
	if challenge.token != (c.token != "") {
		return &refusedError{fmt.Sprintf("rank 0 at %s has no FERRY_NCCL_TOKEN, this rank has one: set the same on all ranks", c.Addr)}
	}
	if _, err := conn.Write(prove(c.token, roleRank, h, challenge.proof)); err != nil {
		return err
	}
	accept, err := c.reply(conn, replyAccept)
	if err != nil {
		return err
	}
	if !hmac.Equal(accept.proof, prove(c.token, roleRoot, h, challenge.proof)) {
		return &refusedError{fmt.Sprintf("who listens at %s does not know FERRY_NCCL_TOKEN", c.Addr)}
	}
	return nil
}

// reply reads the reply of rank 0 that is to come next.
func (c *config) reply(conn net.Conn, want byte) (*reply, error) {
	a, err := readReply(conn, c.version)
	switch {
	case errors.Is(err, errStranger):
		return nil, &refusedError{fmt.Sprintf("what listens at %s is not rank 0: set FERRY_NCCL_PORT to a free port of rank 0's machine on all ranks", c.Addr)}
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s ended the connection", c.Addr)
	case err != nil:
		return nil, err
	case a.kind == replyRefuse:
		return nil, &refusedError{fmt.Sprintf("rank 0 at %s refused %s", c.Addr, a.text)}
	case a.kind == replyLater:
		return nil, errors.New(a.text)
	case a.version != c.version:
		return nil, &refusedError{fmt.Sprintf("rank 0 at %s has version %d of the rendezvous, this rank version %d: use the same Ferry on all ranks", c.Addr, a.version, c.version)}
	case a.kind != want:
		return nil, &refusedError{fmt.Sprintf("rank 0 at %s answers with %d, want %d", c.Addr, a.kind, want)}
	}
	return a, nil
}
