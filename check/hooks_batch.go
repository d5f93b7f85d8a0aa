package check

import "github.com/ferrygpu/ferry/cu"

// Submit checks the calls of b; see [cu.Batches].
func (d *Driver) Submit(ctx cu.Context, b *cu.Batch) (done int, err error) {
	if b == nil {
		return d.inner.Submit(ctx, b)
	}
	defer d.write()
	calls := make([]call, b.Len())
	list := b.Calls()
	for i := range list {
		calls[i] = d.begin(list[i].Op.String(), ctx, list[i].Stream, 0)
		calls[i].batching(ctx, &list[i])
	}
	done, err = d.inner.Submit(ctx, b)
	for i := range calls {
		switch {
		case i < done:
			calls[i].batched(ctx, &list[i])
			_ = calls[i].end(nil)
		case i == done && err != nil:
			if x := &list[i]; x.Op == cu.OpEventRecord {
				calls[i].doneEventRecord(ctx, x.Event, x.Stream, err)
			}
			_ = calls[i].end(err)
		}
	}
	return done, err
}

// batching calls the hook of a call of a batch.
func (c *call) batching(ctx cu.Context, x *cu.Call) {
	switch x.Op {
	case cu.OpMemcpyAsync:
		c.beforeMemcpyAsync(ctx, x.Dst, x.Src, x.Bytes, x.Stream)
	case cu.OpMemcpyHtoDAsync:
		c.beforeMemcpyHtoDAsync(ctx, x.Dst, x.Host, x.Bytes, x.Stream)
	case cu.OpMemcpyDtoHAsync:
		c.beforeMemcpyDtoHAsync(ctx, x.Host, x.Src, x.Bytes, x.Stream)
	case cu.OpMemcpyDtoDAsync, cu.OpMemcpyPeerAsync:
		c.beforeMemcpyDtoDAsync(ctx, x.Dst, x.Src, x.Bytes, x.Stream)
	case cu.OpMemsetD8Async:
		c.fill(ctx, x.Stream, true, x.Dst, x.Bytes)
	case cu.OpMemsetD16Async:
		c.fill(ctx, x.Stream, true, x.Dst, 2*x.Bytes)
	case cu.OpMemsetD32Async:
		c.fill(ctx, x.Stream, true, x.Dst, 4*x.Bytes)
	case cu.OpLaunchKernel:
		c.kernel(ctx, x.Stream, x.Params)
	}
}

// batched calls the hook of a call of a batch that has succeeded.
func (c *call) batched(ctx cu.Context, x *cu.Call) {
	switch x.Op {
	case cu.OpEventRecord:
		c.afterEventRecord(ctx, x.Event, x.Stream)
	case cu.OpStreamWaitEvent:
		c.afterStreamWaitEvent(ctx, x.Stream, x.Event, cu.EventWaitDefault)
	}
}
