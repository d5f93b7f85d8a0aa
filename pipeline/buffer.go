package pipeline

import (
	"context"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/staging"
)

// endpointBuffer is the memory of one endpoint in a chunk in flight.
type endpointBuffer struct {
	own      *ferry.Device[byte] // device memory; nil where kernels use other memory
	host     *ferry.Host[byte]   // page-locked memory of a staged endpoint, else nil
	bytes    []byte              // the memory of host
	hostView *ferry.Device[byte] // of host
	task     copyTask            // between host and pageable memory

	// For the present chunk:
	view  ferry.Device[byte] // what Step sees: a range of own, or of the endpoint
	end   ferry.Device[byte] // what engines copy from or to: a range of host, or of the endpoint
	apart bool               // kernels do not see the data where end is
	at    int64              // where an output belongs in its file, if it is one: see takeOutputs
}

// alloc takes memory for chunks of an endpoint. own says whether kernels need device
// memory of the chunk's own.
func (b *endpointBuffer) alloc(ctx context.Context, j *job, p *endpoint, own bool) (err error) {
	n := j.chunk * p.size
	if own {
		if b.own, err = ferry.Alloc[byte](j.GPU, n); err != nil {
			return err
		}
	}
	if !p.staged() {
		return nil
	}
	if b.host, err = allocHost(ctx, j, n); err != nil {
		return err
	}
	m, err := bridge.Describe(j.GPU, b.host, false)
	if err != nil {
		return err
	}
	b.bytes, b.hostView = m.Bytes, m.View.(*ferry.Device[byte])
	return nil
}

// allocHost allocates page-locked memory, from the pool if there is one.
func allocHost(ctx context.Context, j *job, n int) (*ferry.Host[byte], error) {
	alloc := func() (any, error) { return bridge.AllocHost(ctx, j.GPU, n) }
	if j.Pool != nil {
		alloc = func() (any, error) { return bridge.AllocPooled(ctx, j.Pool, n) }
	}
	h, err := alloc()
	if err != nil {
		return nil, err
	}
	return h.(*ferry.Host[byte]), nil
}

// place sets the ranges for a chunk.
func (b *endpointBuffer) place(p *endpoint, c *Chunk) {
	n := c.Len * p.size
	if b.host != nil {
		b.end = *b.hostView.Range(0, n)
	} else {
		b.end = *p.view().Range(c.First*p.size, c.First*p.size+n)
	}
	b.view, b.apart = b.end, b.own != nil
	if b.apart {
		b.view = *b.own.Range(0, n)
	}
}

// share makes the buffer of an input use the memory of an output in place.
func (b *endpointBuffer) share(in, out *endpoint, output *endpointBuffer) {
	b.view = output.view
	b.apart = output.apart || in.staged() || !in.sameAs(out)
}

// hostBytes returns the page-locked memory of n elements.
func (b *endpointBuffer) hostBytes(p *endpoint, n int) []byte { return b.bytes[:n*p.size] }

// startCopy has workers copy a chunk between page-locked and pageable memory.
func (b *endpointBuffer) startCopy(r *run, p *endpoint, c *Chunk, in bool) {
	t := &b.task
	t.memory, t.chunk, t.off, t.in = staging.Memory(p.memory.Bytes), b.hostBytes(p, c.Len), c.First*p.size, in
	t.tuning = r.job.tuning
	t.start(r.copies)
}

// forget clears what refers to the ends of a job, so that a run that is kept does not hold
// the memory of the caller.
func (b *endpointBuffer) forget() {
	b.view, b.end, b.task.memory = ferry.Device[byte]{}, ferry.Device[byte]{}, nil
}
