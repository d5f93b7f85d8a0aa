package apimodel

import (
	"context"

	"github.com/ferrygpu/ferry"
)

// stream is a stream of the device. Its operations are numbered from 1.
type stream struct {
	name  int
	s     *ferry.Stream
	n     int             // the last operation
	done  int             // the host knows that the operations up to this one are done
	after map[*stream]int // up to which operation of other streams later work of this one waits
	end   *ferry.Event    // recorded when the stream was closed; nil while it is open
}

// used records that the last operation of a stream used a buffer.
func (s *stream) used(b *buffer, write bool) {
	s.n++
	s.add(b, write)
}

func (s *stream) add(b *buffer, write bool) {
	if write {
		b.uses = b.uses[:0] // this operation was ordered after all of them
	}
	b.uses = append(b.uses, use{s, s.n, write})
}

func (p *program) anyStream() *stream { return p.streams[p.random.IntN(len(p.streams))] }

// newStream makes a stream.
func (p *program) newStream() error {
	s, err := ferry.NewStream(p.g, nil)
	if err != nil {
		return err
	}
	p.streamCount++
	p.say("make stream %d", p.streamCount)
	p.streams = append(p.streams, &stream{name: p.streamCount, s: s, after: map[*stream]int{}})
	return nil
}

// closeStream closes a stream with what is queued on it.
func (p *program) closeStream() error {
	if len(p.streams) == 1 {
		return nil
	}
	i := p.random.IntN(len(p.streams))
	s := p.streams[i]
	p.say("close stream %d", s.name)
	e, err := ferry.NewEvent(p.g, nil)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, e)
	if err := s.s.Record(e); err != nil {
		return err
	}
	s.end = e
	p.streams = append(p.streams[:i], p.streams[i+1:]...)
	return s.s.Close()
}

// order makes later work of a stream wait for the operations on a buffer that it must not
// overtake.
func (p *program) order(s *stream, b *buffer, write bool) error {
	if p.careless {
		return nil
	}
	for _, u := range b.uses {
		if (write || u.write) && u.s != s && u.s.done < u.n && s.after[u.s] < u.n {
			if err := p.edge(s, u.s); err != nil {
				return err
			}
		}
	}
	return nil
}

// edge makes later work of a stream wait for all work of another one so far: by an event,
// or by a wait on the host.
func (p *program) edge(s, of *stream) error {
	if p.random.IntN(5) == 0 {
		return p.wait(of)
	}
	e := of.end
	if e == nil {
		e = p.events[p.random.IntN(len(p.events))]
		if err := of.s.Record(e); err != nil {
			return err
		}
	}
	p.say("stream %d waits for stream %d", s.name, of.name)
	if err := s.s.WaitEvent(e); err != nil {
		return err
	}
	for t, n := range of.after {
		s.after[t] = max(s.after[t], n)
	}
	s.after[of] = of.n
	return nil
}

// wait waits on the host for a stream.
func (p *program) wait(s *stream) error {
	p.say("wait for stream %d", s.name)
	var err error
	if s.end != nil {
		err = s.end.Wait(context.Background())
	} else {
		err = s.s.Wait(context.Background())
	}
	s.done = s.n
	return err
}

// hostWait waits on the host for the operations on ordinary Go memory.
func (p *program) hostWait(b *buffer, write bool) error {
	for _, u := range b.uses {
		if (write || u.write) && u.s.done < u.n {
			if err := p.wait(u.s); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitAll waits for the device.
func (p *program) waitAll() error {
	p.say("wait for the GPU")
	if err := p.g.Wait(context.Background()); err != nil {
		return err
	}
	for _, s := range p.streams {
		s.done = s.n
	}
	return nil
}
