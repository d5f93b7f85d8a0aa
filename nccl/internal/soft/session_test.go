package soft

import (
	"context"
	"sync"
)

// meeting is what the sessions of the ranks in one process share.
type meetingPlace struct {
	mu   sync.Mutex
	size int
	keys map[string]*gathering
}

type gathering struct {
	values [][]byte
	n      int
	full   chan struct{}
}

// place is the session of a rank.
type place struct {
	*meetingPlace
	rank int
	lost chan struct{}
}

func sessions(n int) []*place {
	m := &meetingPlace{size: n, keys: map[string]*gathering{}}
	list := make([]*place, n)
	for r := range list {
		list[r] = &place{m, r, make(chan struct{})}
	}
	return list
}

func (p *place) Rank() int             { return p.rank }
func (p *place) Size() int             { return p.size }
func (p *place) Lost() <-chan struct{} { return p.lost }
func (p *place) Err() error            { return nil }
func (p *place) Close() error          { return nil }

func (p *place) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	p.mu.Lock()
	g := p.keys[key]
	if g == nil {
		g = &gathering{values: make([][]byte, p.size), full: make(chan struct{})}
		p.keys[key] = g
	}
	g.values[p.rank] = mine
	if g.n++; g.n == p.size {
		close(g.full)
		delete(p.keys, key)
	}
	p.mu.Unlock()
	select {
	case <-g.full:
		return g.values, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
