package advise

import "context"

// Bounds of the search for chunks and streams.
const (
	leastChunk  = 64 << 10
	mostStreams = 8
)

// search returns the best pipeline in memory of a kind, and how many it tried. It tries
// powers of two: first how many chunks for two streams, then more streams for the best
// number of chunks and its neighbours. Without a pipeline that can be run, parts is 0.
func search(ctx context.Context, p *predictor, kind string, j Job) (best way, tried int, err error) {
	least, worse := 0.0, 0
	try := func(w way) error {
		if w.parts < w.streams || !p.affordable(w, j) {
			return nil
		}
		x, err := p.predict(ctx, w, j)
		if err != nil {
			return err
		}
		tried++
		worse++
		if best.parts == 0 || x.ns < least {
			best, least, worse = w, x.ns, 0
		}
		return nil
	}
	for parts := 2; max(j.In, j.Out)/parts >= leastChunk && worse < 2; parts *= 2 {
		if err := try(way{kind, Pipelined, parts, 2}); err != nil {
			return best, tried, err
		}
	}
	at := best.parts
	for streams := 4; streams <= mostStreams && at > 0; streams *= 2 {
		for _, parts := range []int{at, 2 * at} {
			if max(j.In, j.Out)/parts < leastChunk {
				continue
			}
			if err := try(way{kind, Pipelined, parts, streams}); err != nil {
				return best, tried, err
			}
		}
	}
	return best, tried, nil
}

// affordable reports whether a pipeline can be run with the memory of a laptop.
func (p *predictor) affordable(w way, j Job) bool {
	return (j.In+j.Out)/max(1, w.parts)*min(w.parts, 3*w.streams) <= 2*p.moved
}

// settle runs a pipeline with its real kernels, if that does not take long.
func (p *predictor) settle(ctx context.Context, w way, j Job) error {
	if j.In+j.Out > p.moved || j.visits() > 8*p.work {
		return nil
	}
	x, err := p.simulate(ctx, w, j)
	if err == nil {
		p.known[question{w, j}] = x
	}
	return err
}
