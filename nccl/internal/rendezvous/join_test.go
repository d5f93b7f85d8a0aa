package rendezvous

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// listenHere returns a listener on a free port of the loopback interface.
func listenHere(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// rankConfig returns what a rank of a test has.
func rankConfig(listener net.Listener, rank, size int) *config {
	c := &config{World: World{Rank: rank, Size: size, Addr: listener.Addr().String()}, token: "secret", who: fmt.Sprintf("process %d on test", rank),
		version: protocol, handshake: handshakePatience}
	if rank == 0 {
		c.listener = listener
	}
	return c
}

// joinAll lets all ranks join.
func joinAll(t testing.TB, size int) []*Session {
	t.Helper()
	all, _ := joinAt(t, size)
	return all
}

// joinAt lets all ranks join, and returns the address of rank 0, too.
func joinAt(t testing.TB, size int) ([]*Session, string) {
	t.Helper()
	listener := listenHere(t)
	all, errs := make([]*Session, size), make([]error, size)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	for r := range size {
		wait.Go(func() { all[r], errs[r] = rankConfig(listener, r, size).join(ctx) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return all, listener.Addr().String()
}

// each calls a function for each session at once.
func each(all []*Session, do func(*Session)) {
	var wait sync.WaitGroup
	for _, s := range all {
		wait.Go(func() { do(s) })
	}
	wait.Wait()
}

// TestGather: 64 ranks over TCP, and in one process, hand around values of many lengths under several
// keys at once, twice.
func TestGather(t *testing.T) {
	for name, open := range map[string]func() []*Session{
		"tcp":   func() []*Session { return joinAll(t, 64) },
		"local": func() []*Session { return Local(64) },
	} {
		t.Run(name, func(t *testing.T) {
			all := open()
			for range 2 {
				each(all, func(s *Session) {
					var wait sync.WaitGroup
					for k := range 3 {
						wait.Go(func() { gatherOnce(t, s, k) })
					}
					wait.Wait()
				})
			}
			each(all, func(s *Session) {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if err := s.Err(); err != nil {
					t.Errorf("rank %d after Close: %v", s.Rank(), err)
				}
			})
		})
	}
}

// gatherOnce hands around a value that differs by rank and key, and compares all of them.
func gatherOnce(t *testing.T, s *Session, k int) {
	value := func(rank int) []byte {
		b := make([]byte, rank*k)
		for i := range b {
			b[i] = byte(rank + i + k)
		}
		return b
	}
	mine := value(s.Rank())
	got, err := s.Gather(t.Context(), fmt.Sprint("key ", k), mine)
	if err != nil {
		t.Errorf("rank %d: %v", s.Rank(), err)
		return
	}
	if len(got) != s.Size() {
		t.Errorf("rank %d got %d values", s.Rank(), len(got))
		return
	}
	for r, b := range got {
		if string(b) != string(value(r)) {
			t.Errorf("rank %d got %v of rank %d, want %v", s.Rank(), b, r, value(r))
		}
	}
	clear(mine)
	for _, b := range got {
		clear(b) // it is this rank's own: the race detector and the second round see what is shared
	}
}
