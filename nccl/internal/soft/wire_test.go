package soft

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/nccl/internal/rendezvous"
	"github.com/ferrygpu/ferry/softgpu"
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

// TestFailedOpen: when Open fails, it closes its listener and the connections that have come, also those that have
// not shown who they are.
func TestFailedOpen(t *testing.T) {
	asProcesses(t, 1)
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	places := rendezvous.Local(3)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	found, opened := make(chan wireCard, 2), make(chan error, 1)
	for i := range 2 { // ranks 1 and 2 say who they are; 2 does not connect
		go func() {
			_, _ = gather(t.Context(), places[i+1], "communicator: ranks", card{Library: cardLibrary, Process: strconv.Itoa(i)})
			cards, err := gather(t.Context(), places[i+1], "communicator: addresses", wireCard{})
			if err == nil {
				found <- cards[0]
			}
		}()
	}
	go func() {
		_, err := Library{}.Open(ctx, &backend.Config{Driver: d, Session: places[0], Name: "dp"})
		opened <- err
	}()
	to := <-found
	one, err := (&wire{comm: &comm{rank: 1}}).dial(t.Context(), 1, to)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := net.Dial("tcp", to.Addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err == nil || !strings.Contains(err.Error(), "wait for the connections of rank 2") {
		t.Errorf("got %v", err)
	}
	for _, conn := range []net.Conn{one.conn, stranger} {
		conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection is left open")
		}
		conn.Close()
	}
	if conn, err := net.Dial("tcp", to.Addresses[0]); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
}

// failing is a listener whose first Accept fails.
type failing struct {
	net.Listener
	failed bool
}

func (f *failing) Accept() (net.Conn, error) {
	if !f.failed {
		f.failed = true
		return nil, errors.New("too many open files")
	}
	return f.Listener.Accept()
}

// TestAcceptAgain: an error of one connection does not end the loop, and strangers are limited.
func TestAcceptAgain(t *testing.T) {
	c := newComm(nil, &backend.Config{Session: rendezvous.Local(2)[0], Name: "dp"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{comm: c, remote: []bool{false, true}, listener: &failing{Listener: l}, came: make(chan *link, 2),
		taken: map[int]bool{}, greeting: map[net.Conn]struct{}{}}
	defer w.close(false)
	go w.accept()
	var last net.Conn
	for range c.size + mostStrangers + 1 {
		if last, err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer last.Close()
	}
	last.SetReadDeadline(time.Now().Add(2 * time.Second))
	if n, err := last.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("stranger %d: got %d bytes, %v, want a closed connection", c.size+mostStrangers+1, n, err)
	}
}

// TestAbortTwice: each Abort returns when what runs has ended.
func TestAbortTwice(t *testing.T) {
	c, _, _ := linked(t, 0)
	c.runs.Add(1)
	ended := make(chan struct{}, 2)
	for range 2 {
		go func() { c.Abort(); ended <- struct{}{} }()
	}
	select {
	case <-ended:
		t.Fatal("an Abort returned while a call ran")
	case <-time.After(abortTime + 200*time.Millisecond):
	}
	c.runs.Done()
	<-ended
	<-ended
}

// TestFrames: a message comes as it was sent, and one of a size that its kind cannot have is refused before
// memory is taken for it.
func TestFrames(t *testing.T) {
	_, l, there := linked(t, time.Second)
	want := &message{kind: kindData, key: key{true, 1, 2, 3 << 40}, member: 1, step: 7, data: bytes.Repeat([]byte{1, 2, 3}, chunkBytes)}
	go l.send(want)
	if got, err := readMessage(there); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", err)
	}
	for kind, n := range map[byte]uint64{kindAnnounce: noticeBytes + 1, kindFail: mostReason + 1, kindBye: 1, 9: 0, kindData: 1 << 63} {
		head := make([]byte, headBytes)
		binary.LittleEndian.PutUint64(head, n)
		head[8] = kind
		if _, err := readMessage(bytes.NewReader(head)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("a message of kind %d with %d bytes", kind, n)) {
			t.Errorf("kind %d with %d bytes: got %v", kind, n, err)
		}
	}
	head := make([]byte, headBytes)
	binary.LittleEndian.PutUint64(head, 1<<50)
	head[8] = kindData
	if _, err := readMessage(bytes.NewReader(head)); !errors.Is(err, io.EOF) {
		t.Errorf("a message of 1 PiB that does not come: got %v", err)
	}
}

// TestAbortTells: the reason of an Abort comes although the rank that aborts has data that it has not read.
func TestAbortTells(t *testing.T) {
	c, _, _ := linked(t, 0)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	there, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(c, 1, here)
	c.wire = &wire{comm: c, remote: []bool{false, true}, reads: true}
	c.wire.add(l)
	if _, err := there.Write(make([]byte, 4<<10)); err != nil {
		t.Fatal(err)
	}
	c.Abort()
	if _, err := there.Write(make([]byte, 4<<10)); err != nil { // it would fail instead of the rank's reading why
		t.Error(err)
	}
	if m, err := readMessage(there); err != nil || !strings.Contains(string(m.data), "rank 0 has aborted") {
		t.Errorf("got %v, %v", m, err)
	}
}

// TestWrongListener: a rank is looked for at its next address if a listener does not know the secret, and the loopback
// interface is no address of a rank on another computer.
func TestWrongListener(t *testing.T) {
	listen := func(w *wire) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if w != nil {
					w.greet(conn)
					continue
				}
				conn.Write(make([]byte, nonceBytes))
				io.ReadFull(conn, make([]byte, 4+sha256.Size+nonceBytes))
				conn.Write(make([]byte, sha256.Size))
			}
		}()
		return l.Addr().String()
	}
	right := &wire{secret: [32]byte{1, 2, 3}}
	from := &wire{comm: &comm{rank: 1}, far: []bool{true, false}}
	to := wireCard{Addresses: []string{listen(nil), listen(right)}, Secret: right.secret[:]}
	l, err := from.dial(t.Context(), 0, to)
	if err != nil {
		t.Fatal(err)
	}
	defer l.conn.Close()
	if got := l.conn.RemoteAddr().String(); got != to.Addresses[1] {
		t.Errorf("it took the listener at %s, want %s", got, to.Addresses[1])
	}
	to.Addresses = []string{"127.0.0.1:1", "[::1]:1", "192.0.2.1:1"}
	if got := from.reachable(0, to).Addresses; len(got) != 1 || got[0] != "192.0.2.1:1" {
		t.Errorf("a rank on another computer: %v", got)
	}
	if got := from.reachable(1, to).Addresses; len(got) != 3 {
		t.Errorf("a rank on this computer: %v", got)
	}
	if _, err := from.dial(t.Context(), 0, wireCard{}); err == nil {
		t.Error("a rank without an address was reached")
	}
}
