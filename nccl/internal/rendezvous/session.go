package rendezvous

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/internal/printable"
)

// joinKey is the key of the gather by which ranks join. A caller's key is never empty.
const joinKey = ""

// answerPatience is how long a rank that has waited in vain waits for rank 0 to say who has come.
const answerPatience = 2 * time.Second

// Session is what a rank has of ranks that have met. Its methods are safe for concurrent use.
type Session struct {
	rank  int
	ranks []int // the rank in room 0 of each rank here
	room  uint64
	port  *port
	gone  chan struct{} // closed when a rank was lost
	shut  chan struct{} // closed when this rank or rank 0's process needs no more

	splitting sync.Mutex // held by a split, with splits
	splits    int        // how often the ranks here have split

	mu       sync.Mutex
	waits    map[string]chan message
	err      error // the rank that was lost; set once
	rootLeft bool  // rank 0's process has closed its sessions
	closed   bool  // this rank has
	stopped  bool  // shut is closed
}

// Local returns the sessions of n ranks in this process. They use no network.
func Local(n int) []*Session {
	h := newHub(n)
	all := make([]*Session, n)
	for r := range all {
		p := newPort()
		p.toHub = func(m message) { h.take(r, m) }
		p.end = func() {}
		all[r] = p.openFirst(r, n)
		h.seat(r, p, "a rank of this process")
	}
	return all
}

// send sends a message to the room of the session.
func (s *Session) send(m message) {
	m.room = s.room
	s.port.toHub(m)
}

// Rank returns the number of this rank.
func (s *Session) Rank() int { return s.rank }

// Size returns the number of ranks.
func (s *Session) Size() int { return len(s.ranks) }

// Lost returns a channel that is closed when another rank has ended, or its connection broke, and
// it had not closed its session. A rank notices that until rank 0's process closes its last session.
func (s *Session) Lost() <-chan struct{} { return s.gone }

// Err returns nil, or the error that names the rank that was lost: a [LostError].
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Gather hands mine to all ranks, and returns what each has handed over, in the order of ranks. All
// ranks call it with the same key, of 1 to 255 bytes, and with at most 1 MiB. Calls with different
// keys may be in progress at once, and a key may be used again after its call has returned. If ctx
// ends first, the error is a [MissingError] that names the ranks that have not come.
func (s *Session) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	switch {
	case key == "" || len(key) > maxKey || key[0] == 0:
		return nil, fmt.Errorf("gather %s: a key has 1 to %d bytes, and does not begin with a zero", printable.Value(key), maxKey)
	case len(mine) > maxValue:
		return nil, fmt.Errorf("gather %q: %d bytes of rank %d, of at most %d", key, len(mine), s.rank, maxValue)
	}
	return s.gather(ctx, key, mine)
}

// gather implements Gather for any key.
func (s *Session) gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	began := time.Now()
	answer, err := s.begin(key)
	if err != nil {
		return nil, err
	}
	s.send(message{kind: offer, key: key, parts: [][]byte{bytes.Clone(mine)}})
	if m, err := s.await(key, answer, ctx.Done()); err != nil || m.kind != 0 {
		return s.finish(m, err, nil, time.Since(began))
	}
	waited := time.Since(began)
	s.send(message{kind: withdraw, key: key})
	patience, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	if m, err := s.await(key, answer, patience.Done()); err != nil || m.kind != 0 {
		return s.finish(m, err, reason(ctx), waited)
	}
	return nil, fmt.Errorf("rank %d waited %v for %s, and rank 0 does not say who has come: %w", s.rank, waited.Round(time.Millisecond), meeting(key), reason(ctx))
}

// await returns the answer to an offer, or why there will be none. If done is closed first, it
// returns neither.
func (s *Session) await(key string, answer <-chan message, done <-chan struct{}) (message, error) {
	select {
	case m := <-answer:
		return m, nil
	case <-done:
		return message{}, nil
	case <-s.gone:
	case <-s.shut:
	}
	select {
	case m := <-answer: // it came before the end
		return m, nil
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return message{}, s.why(key)
}

// begin notes that a key is waited for.
func (s *Session) begin(key string) (<-chan message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.why(key); err != nil {
		return nil, err
	}
	if s.waits[key] != nil {
		return nil, fmt.Errorf("rank %d waits for %s already", s.rank, meeting(key))
	}
	answer := make(chan message, 1)
	s.waits[key] = answer
	return answer, nil
}

// finish returns what an answer means for the caller of Gather.
func (s *Session) finish(m message, err, cause error, waited time.Duration) ([][]byte, error) {
	if err != nil || m.kind == result {
		return m.parts, err
	}
	if m.kind == left {
		cause = &LeftError{Rank: m.rank, Key: m.key}
	}
	missing := newMissing(s, m, cause, waited)
	if m.kind == left && !slices.Contains(missing.Early, m.rank) {
		return nil, cause
	}
	return nil, missing
}

// why returns why nothing can be gathered any more, or nil. s.mu is held.
func (s *Session) why(key string) error {
	switch {
	case s.closed:
		return ErrClosed
	case s.err != nil:
		return s.err
	case s.rootLeft:
		return &LeftError{Rank: 0, Key: key}
	}
	return nil
}

// take handles a message of the hub.
func (s *Session) take(m message) {
	switch m.kind {
	case result, left, present:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answer(m)
	case lost:
		s.noteLost(&LostError{Rank: m.rank, Cause: printable.Line(string(m.parts[0])), Aborted: m.key == aborted})
	}
}

// answer hands a message to the Gather that waits for it. s.mu is held.
func (s *Session) answer(m message) {
	wait := s.waits[m.key]
	if wait == nil {
		return
	}
	delete(s.waits, m.key)
	if m.kind == result {
		own := make([][]byte, len(m.parts)) // ranks of one process get the same message
		for i, p := range m.parts {
			own[i] = append([]byte{}, p...)
		}
		m.parts = own
	}
	wait <- m
}

// noteLost notes that another rank has ended.
func (s *Session) noteLost(err *LostError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.closed && !s.rootLeft {
		s.err = err
		close(s.gone)
	}
}

// noteRootLost notes that the connection to rank 0's process has ended.
func (s *Session) noteRootLost(cause string) {
	s.noteLost(&LostError{Rank: slices.Index(s.ranks, 0), Cause: cause})
}

// noteRootLeft notes that rank 0's process needs no more.
func (s *Session) noteRootLeft() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rootLeft = true
	s.stop()
}

// stop ends what waits. s.mu is held.
func (s *Session) stop() {
	if !s.stopped {
		s.stopped = true
		close(s.shut)
	}
}

// Close tells the other ranks that this one needs them no longer, so that they do not count it as
// lost. A Gather that waits returns [ErrClosed].
func (s *Session) Close() error {
	if s != nil {
		s.close(message{kind: leave})
	}
	return nil
}

// Abandon ends the session without a goodbye: the others find this rank lost in it, and why. why may
// be nil.
func (s *Session) Abandon(why error) error {
	if s == nil {
		return nil
	}
	text := "its program said so"
	if why != nil {
		text = printable.Name(why.Error())
	}
	s.close(message{kind: abandon, parts: [][]byte{[]byte(text)}})
	return nil
}

// close closes the session with a message.
func (s *Session) close(goodbye message) {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.stop()
	s.mu.Unlock()
	if first {
		s.send(goodbye)
		s.port.close(s)
	}
}
