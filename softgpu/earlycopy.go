package softgpu

// A copy from pageable memory to the device reads its source during the call.
// The call returns when the source may be reused. The last bytes can still be on
// their way: the manual ("API synchronization behavior") allows that for every
// size. An H200 (driver 580) shows it: a kernel on a non-blocking stream,
// launched right after cudaMemcpy, read old bytes in 62 of 100 tries at 256 KiB,
// and in nearly all from 512 KiB to 32 MiB. It read none up to 128 KiB.
//
// So the destination is ordered by the stream of the copy and the rules of the
// legacy stream only. Nothing else may use it without a wait. The software GPU
// follows the manual at every size, because a program cannot rely on the size.
//
// The host's clock is the same as if the call returned at the end of the copy.

// maxInFlight is the largest part of a copy from pageable memory that has not
// arrived when the call returns. It bounds the memory that keeps these bytes. It
// is twice the largest size at which an H200 was seen to return early.
const maxInFlight = 64 << 20

// arrival says when the bytes of a copy arrive.
type arrival uint8

const (
	beforeReturn arrival = iota // the call orders what the host does next after them
	reportedLate                // before the return, but not to the race detector
	afterReturn
)

// arrival finds when the bytes of t arrive, for a copy in s. If that is not
// certainly before the return, arrival also reads the source. The caller holds
// mu, which is released during waits.
func (t *transfer) arrival(s *streamState, p *plan, async bool) (arrival, error) {
	if !p.early {
		return beforeReturn, nil
	}
	d := s.ctx.drv
	when := d.pageableArrival()
	long, oneRow := t.total() > maxInFlight, t.height == 1 && t.depth == 1
	if when == beforeReturn || d.failed || long && !oneRow {
		return beforeReturn, nil
	}
	if long || !async {
		if !d.executeAll(s.before()) {
			return beforeReturn, nil
		}
		if long {
			if err := t.moveHead(); err != nil {
				return beforeReturn, err
			}
		}
	}
	return when, t.stage()
}

// pageableArrival chooses, by the schedule, when the bytes of a copy from
// pageable memory arrive.
func (d *Driver) pageableArrival() arrival {
	switch {
	case d.schedule == Lazy, d.schedule == Random && d.rng.IntN(2) == 0:
		return afterReturn
	case raceBuild:
		return reportedLate
	}
	return beforeReturn
}

// moveHead moves the bytes of a long copy that are not kept in flight. The
// earlier work of the stream is done.
func (t *transfer) moveHead() error {
	return guard(t.what, []span{t.src, t.dst}, func() error {
		dst, done, err := t.dst.toWrite(t.what, 0)
		if err != nil {
			return err
		}
		defer done()
		n := t.total() - maxInFlight
		t.dst.wrote(0, n)
		copy(dst[:n], bytesAt(t.src.host, n))
		t.head = n
		return nil
	})
}

// leave ends the call of a copy o whose bytes arrive at when. The host's clock
// moves to the end of o, now or when it is known.
func (s *streamState) leave(o *op, when arrival) error {
	d := s.ctx.drv
	if when == afterReturn {
		d.steps = append(d.steps, &hostStep{wait: o})
		return nil
	}
	o.awaited = true
	d.finishUnordered(o)
	if s.ctx.fault != nil {
		return s.ctx.report()
	}
	return o.err
}

// executeAll waits until ops are done, while the host's clock stands still. It
// returns false if an op has failed. The caller holds mu, which is released
// during the wait.
func (d *Driver) executeAll(ops []*op) bool {
	for _, o := range ops {
		if o == nil {
			continue
		}
		d.releaseUpTo(o)
		for !o.done {
			if d.failed {
				return false
			}
			if x := d.executing(o); x != nil {
				d.boundedWait(x)
			} else {
				d.waitAnyDone()
			}
		}
		o.acquired()
	}
	return !d.failed
}
