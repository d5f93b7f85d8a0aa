package fault

import "github.com/ferrygpu/ferry/cu"

// call is a driver call in progress. Hooks before it say what it frees, takes and waits for; hooks
// after it say what it has created.
type call struct {
	d    *Driver
	name string     // of the C function
	ctx  cu.Context // 0 for calls that have no context

	out  outcome
	made bool // the wrapped driver got the call

	freeing object // what the call frees; the zero object for nothing
	reach   uint64 // bytes of addresses, if it frees all of that kind there
	gone    func() bool
	bytes   uint64 // how much memory it allocates
	copies  bool   // it copies to dst in a stream
	dst     cu.DevicePtr
	stream  cu.Stream

	created object // what it has created
	part    object // of what created is a part: its size counts until both are freed
	undo    func() error
}

// begin starts a call.
func (d *Driver) begin(name string, ctx cu.Context) call { return call{d: d, name: name, ctx: ctx} }

// frees notes what the call frees: its kind, and its handle or address.
func (c *call) frees(kind string, at uint64) { c.freeing = object{kind, at} }

// freesAlthough is frees for a call that can free and return an error all the same. gone then asks
// the wrapped driver whether it has freed.
func (c *call) freesAlthough(kind string, at uint64, gone func() bool) {
	c.frees(kind, at)
	c.gone = gone
}

// takes notes how much memory the call allocates.
func (c *call) takes(bytes uint64) { c.bytes = bytes }

// copiesTo notes that the call copies to an address. If that is pageable memory the call waits, and
// can return a fault that no call has reported yet.
func (c *call) copiesTo(dst cu.DevicePtr, s cu.Stream) { c.copies, c.dst, c.stream = true, dst, s }

// creates notes what the call has created, and how it is freed.
func (c *call) creates(kind string, at uint64, undo func() error) {
	c.created, c.undo = object{kind, at}, undo
}

// make decides what happens to the call, and lets f make it if it is made.
func (c *call) make(f func()) {
	d := c.d
	c.out = d.next(c.name, c.freeing != object{}, c.ctx)
	if c.copies {
		c.out = d.copiesTo(c.out, c.ctx, c.dst, c.stream)
	}
	if c.out.err != nil && !c.out.done || c.out.skipped {
		return
	}
	if err := d.room(c.name, c.bytes); err != nil {
		c.out = outcome{err: err}
		return
	}
	c.made = true
	f()
}

// end ends a call that returned err, if it was made, and returns its error. What a call has created
// that fails nevertheless is freed, because the caller has no handle.
func (c *call) end(err error) error {
	switch d := c.d; {
	case !c.made:
		return c.out.err
	case err != nil:
		if c.gone != nil && c.gone() {
			d.freed(c.freeing, c.reach)
		}
		return err
	case c.freeing != object{}:
		d.freed(c.freeing, c.reach)
	}
	switch {
	case c.undo == nil:
	case c.out.err != nil:
		_ = c.undo() // the call fails in any case
	default:
		c.d.created(c.created, c.bytes, c.part)
	}
	return c.out.err
}

// end1 is end for a call with a result. A call that fails as asked has none.
func end1[T any](c *call, v T, err error) (T, error) {
	failed := c.end(err)
	if failed != nil && err == nil {
		v = *new(T)
	}
	return v, failed
}

// end2 is end1 for a call with two results.
func end2[T, U any](c *call, v T, w U, err error) (T, U, error) {
	failed := c.end(err)
	if failed != nil && err == nil {
		v, w = *new(T), *new(U)
	}
	return v, w, failed
}
