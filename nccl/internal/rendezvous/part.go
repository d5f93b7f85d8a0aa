package rendezvous

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

var _, _ backend.Session = (*Session)(nil), (*part)(nil)

// part is the session of some ranks of a session, which Split has made. It uses its connections.
type part struct {
	s      *Session
	ranks  []int // of s, in the order of this part
	rank   int   // this one, in the part
	prefix string
	want   []byte // the bits of the ranks
	gone   chan struct{}

	// s.mu guards what follows.
	err    error
	closed bool
	splits int
}

// Split returns a session of the ranks that give the same color, in the order of their keys and then
// of their ranks. All ranks call it. A rank with color -1 gets nil. When a rank of the whole
// is lost, all parts lose it.
func (s *Session) Split(ctx context.Context, color, key int) (backend.Session, error) {
	s.mu.Lock()
	s.splits++
	n := s.splits
	s.mu.Unlock()
	all := make([]int, s.size)
	for r := range all {
		all[r] = r
	}
	return s.split(ctx, s, all, fmt.Sprintf("part %d", n), color, key)
}

// split is Split for ranks that gather by whole.
func (s *Session) split(ctx context.Context, whole backend.Session, ranks []int, name string, color, key int) (backend.Session, error) {
	mine := binary.BigEndian.AppendUint64(nil, uint64(color))
	got, err := whole.Gather(ctx, "split: "+name, binary.BigEndian.AppendUint64(mine, uint64(key)))
	if err != nil || color < 0 {
		return nil, err
	}
	type member struct{ rank, key int }
	var members []member
	for i, b := range got {
		if len(b) != 16 {
			return nil, fmt.Errorf("rank %d offers %d bytes to a split, want 16", i, len(b))
		}
		if int(binary.BigEndian.Uint64(b)) == color {
			members = append(members, member{ranks[i], int(binary.BigEndian.Uint64(b[8:]))})
		}
	}
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	p := &part{s: s, prefix: fmt.Sprintf("%s.%d", name, color), gone: make(chan struct{})}
	set := make([]bool, s.size)
	for i, m := range members {
		p.ranks = append(p.ranks, m.rank)
		set[m.rank] = true
		if m.rank == s.rank {
			p.rank = i
		}
	}
	p.want = bits(set)
	return p, s.add(p)
}

// add makes a part known to what comes from the hub.
func (s *Session) add(p *part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.why(p.prefix); err != nil {
		return err
	}
	s.users++
	s.parts[p.prefix] = p
	if err := s.quits[p.prefix]; err != nil { // another rank was faster
		p.lose(err)
	}
	return nil
}

// partLost notes that a rank has abandoned a part. s.mu is held.
func (s *Session) partLost(prefix string, err *LostError) {
	s.quits[prefix] = err
	if p := s.parts[prefix]; p != nil {
		p.lose(err)
	}
}

// lose notes that a rank is lost. s.mu is held.
func (p *part) lose(err *LostError) {
	if p.err != nil || p.closed {
		return
	}
	own := *err
	if own.Rank = slices.Index(p.ranks, err.Rank); own.Rank < 0 {
		own.Rank = err.Rank
		own.Cause = "a rank of the whole that is none of this part: " + own.Cause
	}
	p.err = &own
	close(p.gone)
}

func (p *part) Rank() int             { return p.rank }
func (p *part) Size() int             { return len(p.ranks) }
func (p *part) Lost() <-chan struct{} { return p.gone }

func (p *part) Err() error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.err
}

// Gather is that of [Session], among the ranks of the part.
func (p *part) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	key = p.prefix + ": " + key
	if len(key) > maxKey || len(mine) > maxValue {
		return nil, fmt.Errorf("gather %q: %d bytes: a key has at most %d bytes, and a value %d", key, len(mine), maxKey, maxValue)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { // a part can lose a rank that the whole keeps
		select {
		case <-p.gone:
			stop(p.Err())
		case <-ctx.Done():
		}
	}()
	all, err := p.s.gather(ctx, key, bytes.Clone(mine), p.want)
	if err != nil {
		return nil, p.own(err)
	}
	got := make([][]byte, len(p.ranks))
	for i, r := range p.ranks {
		got[i] = all[r]
	}
	return got, nil
}

// own returns an error with the ranks of the part instead of those of the whole.
func (p *part) own(err error) error {
	m, ok := errors.AsType[*MissingError](err)
	if !ok {
		return err
	}
	x := *m
	x.Rank = p.rank
	x.Came, x.Early, x.Missing = p.numbers(m.Came), p.numbers(m.Early), p.numbers(m.Missing)
	return &x
}

// numbers returns those of ranks that are in the part, by their numbers there.
func (p *part) numbers(ranks []int) (own []int) {
	for _, r := range ranks {
		if i := slices.Index(p.ranks, r); i >= 0 {
			own = append(own, i)
		}
	}
	slices.Sort(own)
	return own
}

// Split is that of [Session], among the ranks of the part.
func (p *part) Split(ctx context.Context, color, key int) (backend.Session, error) {
	p.s.mu.Lock()
	p.splits++
	n := p.splits
	p.s.mu.Unlock()
	return p.s.split(ctx, p, p.ranks, fmt.Sprintf("%s, part %d", p.prefix, n), color, key)
}

// Close ends the part, and with the last one the whole.
func (p *part) Close() error {
	if p.leave() {
		p.s.release(message{kind: bye})
	}
	return nil
}

// Abandon ends the part without a goodbye: its other ranks find this one lost, and why.
func (p *part) Abandon(why error) error {
	if p.leave() {
		p.s.toHub(message{kind: quit, key: p.prefix, parts: [][]byte{reasonText(why), p.want}})
		p.s.release(message{kind: bye})
	}
	return nil
}

// leave reports whether the part was open, and closes it.
func (p *part) leave() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.closed {
		return false
	}
	p.closed = true
	delete(p.s.parts, p.prefix)
	return true
}
