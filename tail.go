package ferry

import (
	"errors"

	"github.com/ferrygpu/ferry/cu"
)

// tail is an event that stands for the end of all work of a destroyed stream. It
// is destroyed when somebody has seen it pass, or with the context.
type tail struct {
	event cu.Event
	life  lifetime
}

// newTail records the end of q's work. Where that cannot be done it waits for
// the work instead and gives nil.
func newTail(q *queue) (*tail, error) {
	d, ctx := q.g.driver, q.g.ctx
	event, err := d.EventCreate(ctx, cu.EventDisableTiming)
	if err == nil {
		if err = d.EventRecord(ctx, event, q.handle); err == nil {
			return &tail{event: event}, nil
		}
		err = errors.Join(err, d.EventDestroy(ctx, event))
	}
	if inCallback(err) {
		return nil, err
	}
	n := q.issued()
	if err := d.StreamSynchronize(ctx, q.handle); err != nil {
		q.park(err)
	} else {
		q.pass(n)
	}
	return nil, nil
}

// wait returns when the work is done. A nil tail is done.
func (t *tail) wait(g *GPU) error {
	if t == nil || g.released.Load() || !t.life.enter() {
		return nil // seen before
	}
	err := g.driver.EventSynchronize(g.ctx, t.event)
	if err == nil {
		t.life.close()
	}
	if t.life.leave() {
		err = errors.Join(err, g.driver.EventDestroy(g.ctx, t.event))
	}
	return err
}

// ask says whether the work is done, without waiting. A nil tail is done.
func (t *tail) ask(g *GPU) bool {
	if t == nil || g.released.Load() || !t.life.enter() {
		return true
	}
	err := g.driver.EventQuery(g.ctx, t.event)
	if err == nil {
		t.life.close()
	}
	if t.life.leave() {
		_ = g.driver.EventDestroy(g.ctx, t.event)
	}
	return err == nil || sticky(err)
}
