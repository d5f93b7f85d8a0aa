package rendezvous

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// meet lets rank 0 of two and a rank that is changed meet, and then a right rank 1. It returns the
// error of the changed rank and the lines that rank 0 logs.
func meet(t *testing.T, change func(root, rank *config)) (log string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	listener := listenHere(t)
	root, wrong, right := rankConfig(listener, 0, 2), rankConfig(listener, 1, 2), rankConfig(listener, 1, 2)
	change(root, wrong)
	right.token, right.version = root.token, root.version
	lines := &lines{}
	root.log = lines.add
	var wait sync.WaitGroup
	wait.Go(func() {
		s, err := root.join(ctx)
		if err != nil {
			t.Errorf("the meeting is disturbed: %v", err)
			return
		}
		s.Close()
	})
	for range 3 {
		if _, err = wrong.join(ctx); err == nil {
			t.Error("the wrong rank joins")
		}
	}
	s, e := right.join(ctx)
	if e != nil {
		t.Errorf("the right rank: %v", e)
	}
	s.Close()
	wait.Wait()
	return lines.String(), err
}

// lines collects lines.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// TestRefused: a rank that does not fit is refused with what does not, three times. Rank 0 logs it
// once, and meets the right rank.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(root, rank *config)
		want   string
	}{
		"token":         {func(_, r *config) { r.token = "other" }, "rank 1 (process 1 on test), which has another FERRY_NCCL_TOKEN than rank 0"},
		"no token":      {func(_, r *config) { r.token = "" }, "rank 1 (process 1 on test), which has no FERRY_NCCL_TOKEN, and rank 0 has one"},
		"token of one":  {func(root, _ *config) { root.token = "" }, "which has FERRY_NCCL_TOKEN, and rank 0 has none"},
		"size":          {func(_, r *config) { r.Size = 3 }, "which has 3 ranks (WORLD_SIZE), and rank 0 (process 0 on test) has 2"},
		"rank":          {func(_, r *config) { r.Rank, r.Size = 2, 3 }, "which has 3 ranks (WORLD_SIZE)"},
		"newer version": {func(_, r *config) { r.version = 2 }, "version 2 of the rendezvous, rank 0 has version 1"},
		"older version": {func(root, _ *config) { root.version = 7 }, "version 1 of the rendezvous, rank 0 has version 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, err := meet(t, c.change)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the rank: %v, want %q", err, c.want)
			}
			if !strings.Contains(log, c.want) || strings.Contains(log, "\n") {
				t.Errorf("rank 0 logs %q, want one line with %q", log, c.want)
			}
			if strings.Contains(log, "secret") {
				t.Errorf("the log has the token: %q", log)
			}
		})
	}
}

// TestSameRank: of two processes with one rank the second is refused, with both named, and where
// another is missing the error of rank 0 says so.
func TestSameRank(t *testing.T) {
	listener := listenHere(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		_, err := rankConfig(listener, 0, 3).join(ctx)
		for _, want := range []string{"ranks 0 and 1 came, rank 2 did not", "; refused were a second", "a second rank 1 (process 99 on test), the first is process 1 on test",
			"a second rank 0 (process 98 on test), the first is process 0 on test"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rank 0: %v, want %q", err, want)
			}
		}
	})
	first, err := rankConfig(listener, 1, 3).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	first.Write(append((&message{kind: offer, key: joinKey, parts: [][]byte{nil}}).wire(), (&message{kind: withdraw, key: joinKey}).wire()...))
	if _, err := first.Read(make([]byte, 1)); err != nil { // the answer: rank 0 has noted that it came
		t.Fatal(err)
	}
	second := rankConfig(listener, 1, 3)
	second.who = "process 99 on test"
	if _, err := second.join(t.Context()); err == nil || !strings.Contains(err.Error(), "a second rank 1 (process 99 on test), the first is process 1 on test: RANK must differ") {
		t.Errorf("the second rank 1: %v", err)
	}
	root := rankConfig(listener, 0, 3)
	root.listener, root.who = nil, "process 98 on test"
	if _, err := root.join(t.Context()); err == nil || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), "only one process may have RANK=0") {
		t.Errorf("the second rank 0: %v", err)
	}
	if _, err := root.visit(t.Context()); err == nil || !strings.Contains(err.Error(), "a second rank 0") {
		t.Errorf("rank 0 as a visitor: %v", err)
	}
	cancel()
	io.Copy(io.Discard, first)
	first.Close()
	wait.Wait()
}

// TestOpenAddress: without a token rank 0 listens on the loopback interface alone, and an address of
// another machine is refused.
func TestOpenAddress(t *testing.T) {
	for _, addr := range []string{"10.1.2.3:4000", "gpu-1:4000", "[2001:db8::1]:4000", "0.0.0.0:4000", "127.0.0.1.example.com:4000"} {
		for rank := range 2 {
			_, err := Join(t.Context(), World{Rank: rank, Size: 2, Addr: addr}, nil)
			if err == nil || !strings.Contains(err.Error(), "set FERRY_NCCL_TOKEN to the same secret on all ranks") {
				t.Errorf("rank %d at %s: %v", rank, addr, err)
			}
		}
	}
	for addr, open := range map[string]bool{"127.0.0.1:0": false, "localhost:0": false, "gpu-1:0": true, "10.1.2.3:0": true} {
		c := &config{World: World{Size: 2, Addr: addr}, token: "secret"}
		if err := c.listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.listener.Close()
		if ip := c.listener.Addr().(*net.TCPAddr).IP; ip.IsUnspecified() != open || ip.IsLoopback() == open {
			t.Errorf("rank 0 at %s listens on %v", addr, ip)
		}
	}
}

// TestJoinRefused: a world that cannot be is refused.
func TestJoinRefused(t *testing.T) {
	for want, w := range map[string]World{
		"0 ranks, must be 1 to 65536":    {},
		"70000 ranks":                    {Size: 70000},
		"rank 2 of 2 ranks":              {Rank: 2, Size: 2, Addr: "127.0.0.1:1"},
		"rank -1 of 2 ranks":             {Rank: -1, Size: 2, Addr: "127.0.0.1:1"},
		"the address of rank 0: missing": {Size: 2, Addr: ""},
	} {
		if _, err := Join(t.Context(), w, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", w, err, want)
		}
	}
	s, err := Join(t.Context(), World{Size: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Gather(t.Context(), "k", []byte("v")); err != nil || len(got) != 1 || string(got[0]) != "v" {
		t.Errorf("one rank gathers %q, %v", got, err)
	}
	s.Close()
}

// TestStrangers: while 8 ranks join, others send garbage, say nothing, announce huge lengths or
// leave at once. All ranks join, and rank 0 does not keep more than the limit.
func TestStrangers(t *testing.T) {
	listener := listenHere(t)
	addr := listener.Addr().String()
	lines := &lines{}
	root := rankConfig(listener, 0, 8)
	root.log = lines.add
	var wait sync.WaitGroup
	sessions := make([]*Session, 8)
	join := func(c *config) {
		s, err := c.join(t.Context())
		if err != nil {
			t.Errorf("rank %d: %v", c.Rank, err)
			return
		}
		sessions[c.Rank] = s
	}
	wait.Go(func() { join(root) })
	var silent []net.Conn
	hello := (&hello{version: protocol, token: true, rank: 3, size: 8, who: "stranger"}).wire()
	huge := bytes.Clone(hello)
	huge[len(huge)-1-len("stranger")] = 0xff
	for i, say := range [][]byte{nil, hello[:20], hello, []byte("GET / HTTP/1.1\r\n\r\n"), bytes.Repeat([]byte{0xff}, 5000), huge, append(bytes.Clone(hello), make([]byte, 32)...)} {
		for range 20 {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.Write(say)
			if i < 3 {
				silent = append(silent, conn) // and waits
			}
		}
	}
	for r := 1; r < 8; r++ {
		wait.Go(func() { join(rankConfig(listener, r, 8)) })
	}
	for range 60 { // more than are kept, beside the ranks
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, conn)
	}
	wait.Wait()
	for tries := 0; ; tries++ { // rank 0 may still have to accept some
		n := stillOpen(silent)
		if n <= 8+moreStrangers {
			break
		}
		if tries == 100 {
			t.Fatalf("rank 0 keeps %d connections that have proved nothing, of at most %d", n, 8+moreStrangers)
		}
	}
	for _, s := range sessions {
		if s != nil && s.Err() != nil {
			t.Error(s.Err())
		}
	}
	began := time.Now()
	for _, s := range sessions {
		s.Close()
	}
	if took := time.Since(began); took > handshakePatience/2 {
		t.Errorf("Close waited %v for connections that have proved nothing", took)
	}
	if n := stillOpen(silent); n > 0 {
		t.Errorf("rank 0 has closed and keeps %d connections", n)
	}
	for _, want := range []string{"no rank of Ferry", "another FERRY_NCCL_TOKEN"} {
		if strings.Count(lines.String(), want) != 1 {
			t.Errorf("rank 0 logs %q, want one line with %q", lines, want)
		}
	}
}

// stillOpen returns how many connections the other side has not ended.
func stillOpen(all []net.Conn) (n int) {
	deadline := time.Now().Add(20 * time.Millisecond)
	for _, conn := range all {
		_ = conn.SetReadDeadline(deadline.Add(time.Millisecond))
		_, err := io.Copy(io.Discard, conn)
		if e, ok := err.(net.Error); ok && e.Timeout() {
			n++
		}
	}
	return n
}

// TestSlow: a connection that says a byte now and then does not live longer than a handshake may.
func TestSlow(t *testing.T) {
	listener := listenHere(t)
	root := rankConfig(listener, 0, 2)
	root.handshake = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); root.join(ctx) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for i := range len(magic) - 1 { // it never says which version it has
			if _, err := conn.Write([]byte(magic)[i : i+1]); err != nil {
				return
			}
			time.Sleep(30 * time.Millisecond)
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the connection still lives")
	}
	cancel()
	<-done
}

// TestAfterHandshake: a rank that is in and then says nonsense, or announces a huge message, ends as
// lost, and rank 0 takes no memory for it.
func TestAfterHandshake(t *testing.T) {
	for name, say := range map[string][]byte{
		"huge":        {0xff, 0xff, 0xff, 0xff, 1},
		"nonsense":    {0, 0, 0, 3, 9, 9, 9},
		"wrong kind":  (&message{kind: lost, parts: [][]byte{{1}}}).wire(),
		"two offers":  (&message{kind: offer, key: "k", parts: [][]byte{{1}, {2}}}).wire(),
		"huge offers": binary.BigEndian.AppendUint32(nil, uint32(largest(2, false)+1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := listenHere(t)
			joined := make(chan *Session)
			go func() {
				s, err := rankConfig(listener, 0, 2).join(t.Context())
				if err != nil {
					t.Error(err)
				}
				joined <- s
			}()
			conn, err := rankConfig(listener, 1, 2).connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.Write((&message{kind: offer, key: joinKey, parts: [][]byte{nil}}).wire())
			s := <-joined
			conn.Write(say)
			checkLost(t, s, 1)
			s.Close()
		})
	}
}

// TestFalseRoot: a rank refuses a rank 0 that does not know the token, also one that sends the
// rank's own proof back, and what is no rank at all.
func TestFalseRoot(t *testing.T) {
	challenge := (&reply{version: protocol, kind: replyChallenge, token: true, proof: make([]byte, nonceBytes)}).wire()
	accept := func(proof []byte) []byte { return (&reply{version: protocol, kind: replyAccept, proof: proof}).wire() }
	for name, c := range map[string]struct {
		first []byte
		then  func(proof []byte) []byte
		want  string
	}{
		"reflects":  {challenge, accept, "does not know FERRY_NCCL_TOKEN"},
		"invents":   {challenge, func([]byte) []byte { return accept(make([]byte, 32)) }, "does not know FERRY_NCCL_TOKEN"},
		"no token":  {(&reply{version: protocol, kind: replyChallenge, proof: make([]byte, nonceBytes)}).wire(), accept, "has no FERRY_NCCL_TOKEN"},
		"accepts":   {accept(make([]byte, 32)), accept, "answers with 2, want 1"},
		"a server":  {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), accept, "is not rank 0: set FERRY_NCCL_PORT"},
		"a version": {(&reply{version: 5, kind: replyChallenge}).wire(), accept, "has version 5 of the rendezvous, this rank version 1"},
		"unknown":   {(&reply{version: protocol, kind: 9}).wire(), accept, "is not rank 0"},
		"long":      {append((&reply{version: protocol, kind: replyRefuse}).wire()[:11], 0xff, 0xff), accept, "is not rank 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := listenHere(t)
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				if _, err := readHello(conn, protocol); err != nil {
					t.Error(err)
				}
				conn.Write(c.first)
				var proof [32]byte
				if _, err := io.ReadFull(conn, proof[:]); err == nil {
					conn.Write(c.then(proof[:]))
				}
				io.Copy(io.Discard, conn)
			}()
			_, err := rankConfig(listener, 1, 2).connect(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestProof: a proof changes with all that it covers.
func TestProof(t *testing.T) {
	base := hello{version: protocol, token: true, rank: 1, size: 2, who: "w"}
	nonce := make([]byte, nonceBytes)
	seen := map[string]string{}
	add := func(what, token, role string, h hello, challenge []byte) {
		p := fmt.Sprintf("%x", prove(token, role, &h, challenge))
		if seen[p] != "" {
			t.Errorf("%s has the proof of %s", what, seen[p])
		}
		seen[p] = what
	}
	add("the base", "t", roleRank, base, nonce)
	add("another token", "u", roleRank, base, nonce)
	add("another role", "t", roleRoot, base, nonce)
	other := base
	other.rank = 0
	add("another rank", "t", roleRank, other, nonce)
	other = base
	other.nonce[31] = 1
	add("another number of the rank", "t", roleRank, other, nonce)
	add("another number of rank 0", "t", roleRank, base, append(bytes.Clone(nonce[:31]), 1))
}

// TestCountTooLarge: a count of parts that cannot be there takes no memory.
func TestCountTooLarge(t *testing.T) {
	b := []byte{byte(result), 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}
	if n := testing.AllocsPerRun(10, func() {
		if _, err := parseMessage(b); err != errShort {
			t.Errorf("%v, want %v", err, errShort)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzMessage: what is read as a message is written as the same bytes, and memory does not follow
// what lengths announce.
func FuzzMessage(f *testing.F) {
	for _, m := range []message{
		{kind: offer, key: "k", rank: 1, parts: [][]byte{{1, 2}}}, {kind: bye}, {kind: result, parts: [][]byte{nil, {1}, {2, 3}}},
	} {
		f.Add(m.wire()[4:])
	}
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMessage(b)
		if err != nil {
			return
		}
		if again := m.wire(); !bytes.Equal(again[4:], b) || int(binary.BigEndian.Uint32(again)) != len(b) {
			t.Errorf("% x is read as %+v, and written as % x", b, m, again)
		}
		_, _ = m.checkFor(), m.checkFrom(2)
	})
}

// FuzzHandshake: what strangers send is read without a panic, and only so far as needed.
func FuzzHandshake(f *testing.F) {
	f.Add((&hello{version: protocol, rank: 1, size: 2, who: "process"}).wire())
	f.Add((&reply{version: protocol, kind: replyChallenge, proof: make([]byte, nonceBytes)}).wire())
	f.Add((&reply{version: 9, kind: replyRefuse, text: "no"}).wire())
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := readHello(bytes.NewReader(b), protocol); err == nil && h.version == protocol {
			if again := h.wire(); !bytes.HasPrefix(b, again) {
				t.Errorf("% x is read as %+v, and written as % x", b, h, again)
			}
		}
		if a, err := readReply(bytes.NewReader(b), protocol); err == nil && len(a.text) > 6*maxRefusal {
			t.Errorf("a text of %d bytes", len(a.text))
		}
	})
}
