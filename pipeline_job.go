package ferry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
)

// What a pipeline chooses: see docs/PERFORMANCE.md.
const (
	pauseBytes  = 400 << 10 // what an engine could move in its pause between two chunks: 8 us on an H200
	growBytes   = 1 << 20   // by which the copies in get ahead: chunks are the root of it and all before them
	leastChunk  = 256 << 10 // bytes
	mostChunk   = 32 << 20
	stagedChunk = 4 << 20  // of a chunk that goroutines fill and empty, at most
	onlyChunk   = 64 << 20 // of a chunk that kernels use where it is
	directDepth = 4
	stagedDepth = 16  // at most
	plainDepth  = 10  // at most, where there is plain memory only: more would not stay in the caches
	evenLen     = 256 // elements that chunks are multiples of
)

// job is what a pipeline has to do in one run.
type job struct {
	*Pipeline
	in, out []port
	total   int     // elements; math.MaxInt until the readers end
	byFile  bool    // total is that of a file
	size    uintptr // of the largest elements
	chunk   int     // elements of the largest chunk
	grows   bool    // the first chunks are smaller
	depth   int
	staged  bool // goroutines fill or empty chunks
	files   bool // some of these are readers or writers
	moved   bool // what is not staged is copied, some of it
}

// endless is the number of elements that only readers know.
const endless = math.MaxInt

// plan looks at what is to be done.
func (p *Pipeline) plan() (*job, error) {
	j := &job{Pipeline: p}
	switch {
	case p.Step == nil:
		return nil, refuse("no Step given (nil)")
	case len(p.In)+len(p.Out) == 0:
		return nil, refuse("it has no ends: give In or Out")
	case p.Len < 0 || p.ChunkLen < 0 || p.Depth < 0:
		return nil, refuse("Len %d, ChunkLen %d, Depth %d: they cannot be negative", p.Len, p.ChunkLen, p.Depth)
	case p.Pool != nil && p.Pool.g != p.GPU:
		return nil, refuse("its chunks would be from %v: it is another GPU's", p.Pool)
	}
	var err error
	if j.in, err = j.look("input", p.In); err != nil {
		return nil, err
	}
	if j.out, err = j.look("output", p.Out); err != nil {
		return nil, err
	}
	if err := errors.Join(j.pair(), j.count()); err != nil {
		return nil, err
	}
	return j, j.divide()
}

// look makes ports of ends.
func (j *job) look(what string, ends []End) ([]port, error) {
	ports := make([]port, len(ends))
	for i, e := range ends {
		if e == nil {
			return nil, refuse("%s %d is nil", what, i)
		}
		p := e.end()
		if p.bad == nil {
			p.bad = j.usable(&p, what)
		}
		if p.bad != nil {
			return nil, fmt.Errorf("%s %d: %w", what, i, p.bad)
		}
		ports[i] = p
	}
	return ports, nil
}

// usable finds out what kind of memory an end is, and refuses what it cannot serve as.
func (j *job) usable(p *port, what string) error {
	switch {
	case p.r == nil && (p.read != nil) != (what == "input"):
		return refuse("From is for inputs, To is for outputs")
	case p.r == nil:
		return nil
	}
	r := *p.r
	if _, err := j.GPU.whole(&r); err != nil {
		return err
	}
	p.r = &r
	if r.a != nil && r.a.readOnly && what == "output" {
		return refuse("%v is registered read-only", &r)
	}
	return r.reach(j.GPU)
}

// pair checks that inputs and outputs go together.
func (j *job) pair() error {
	for i := range j.out {
		for k := range j.in {
			if j.out[i].clashes(&j.in[k]) {
				return refuse("output %d overlaps input %d, element by element it is not the same", i, k)
			}
		}
		for k := range i {
			if j.out[i].clashes(&j.out[k]) || j.out[i].sameAs(&j.out[k]) {
				return refuse("output %d overlaps output %d", i, k)
			}
		}
		if j.InPlace && i < len(j.in) && j.in[i].size != j.out[i].size {
			return refuse("in place: elements of input %d have %d bytes, those of output %d have %d", i, j.in[i].size, i, j.out[i].size)
		}
	}
	return nil
}

// span is the addresses of an end in memory; both are 0 for others.
func (p *port) span() (from, to uint64) {
	if p.r == nil || p.r.bytes == 0 {
		return 0, 0
	}
	from = p.r.place()
	return from, from + uint64(p.r.bytes)
}

// sameAs says that two ends have the same elements.
func (p *port) sameAs(o *port) bool {
	a, _ := p.span()
	b, _ := o.span()
	return a != 0 && a == b && p.size == o.size
}

// clashes says that two ends share bytes, but not element by element.
func (p *port) clashes(o *port) bool {
	a, aEnd := p.span()
	b, bEnd := o.span()
	return a < bEnd && b < aEnd && !p.sameAs(o)
}

// count finds the number of elements: all memory has as many, and files no fewer; with
// files alone, all have as many.
func (j *job) count() error {
	j.total = endless
	if j.Len > 0 {
		j.total = j.Len
	}
	for _, memory := range []bool{true, false} {
		for _, ports := range [][]port{j.in, j.out} {
			for i := range ports {
				if p := &ports[i]; (p.r != nil) == memory {
					if err := j.agree(p); err != nil {
						return err
					}
				}
			}
		}
	}
	if j.total == endless && len(j.in) == 0 {
		return refuse("nothing says how many elements there are: set Len")
	}
	return nil
}

func (j *job) agree(p *port) error {
	switch {
	case p.n == unknown:
	case j.total == endless:
		j.total, j.byFile = p.n, p.r == nil
		if p.torn > 0 {
			return fmt.Errorf("the file ends %d bytes after its last whole element of %d: %w", p.torn, p.size, io.ErrUnexpectedEOF)
		}
	case p.r == nil && (p.n < j.total || p.n > j.total && j.byFile):
		return fmt.Errorf("a file has %d elements, another end has %d: %w", p.n, j.total, io.ErrUnexpectedEOF)
	case p.r != nil && (p.n < j.total || p.n > j.total && j.Len == 0):
		return refuse("%v has %d elements, not %d: ends must have as many, or Len says how many are used", p.r, p.n, j.total)
	}
	return nil
}

// divide finds the length of chunks and how many there are at once.
func (j *job) divide() error {
	sum := uintptr(0)
	for _, ports := range [][]port{j.in, j.out} {
		for i := range ports {
			p := &ports[i]
			j.staged = j.staged || p.staged()
			j.moved = j.moved || !j.direct(ports, i)
			j.size, sum = max(j.size, p.size), sum+p.size
			j.files = j.files || p.r == nil
		}
	}
	if j.depth = j.Depth; j.depth == 0 {
		j.depth = j.bestDepth()
	}
	if j.chunk = j.ChunkLen; j.chunk > 0 {
		return nil
	}
	free, _, err := j.GPU.driver.MemGetInfo(j.GPU.ctx)
	if err != nil {
		return err
	}
	// Half of what is free at most: kernels need memory, too.
	j.chunk = j.even(min(j.bestChunk(), free/2/uintptr(j.depth)/sum*j.size))
	j.grows = j.moved
	return nil
}

// bestDepth is how many chunks there are at once.
func (j *job) bestDepth() int {
	most := plainDepth
	switch {
	case !j.staged:
		return directDepth
	case j.files:
		most = stagedDepth
	}
	return max(directDepth, min(2*runtime.GOMAXPROCS(0), most))
}

// even is how many elements make a chunk of at most so many bytes.
func (j *job) even(bytes uintptr) int {
	n := int(bytes / j.size)
	if n > evenLen {
		n -= n % evenLen
	}
	return max(n, 1)
}

// bestChunk is the bytes of a large chunk at the end whose elements are the largest. A
// chunk is alone on its way in or out at the beginning and the end, which costs its time;
// each chunk costs the engines a pause. The sum is least where both are alike: at the
// root of all the bytes times those of a pause.
func (j *job) bestChunk() uintptr {
	most := uintptr(mostChunk)
	switch {
	case j.staged:
		most = stagedChunk
	case !j.moved:
		return onlyChunk
	}
	if j.total == endless {
		return most
	}
	return min(max(root(j.total, j.size, pauseBytes), leastChunk), most)
}

// root is the root of the bytes of n elements times others.
func root(n int, size, bytes uintptr) uintptr {
	return uintptr(math.Sqrt(float64(n) * float64(size) * float64(bytes)))
}

// length is the elements of the chunk that begins with element first, 0 or fewer after
// the last. The copies out can begin when the first chunk is in, so that is a small one.
// They are slower than those in where both go on, which get ahead so that chunks may grow
// and nobody waits for one.
func (j *job) length(first int) int {
	n := j.chunk
	if j.grows {
		n = min(n, j.even(max(uintptr(n)*j.size/10, root(first, j.size, growBytes))))
	}
	return min(n, j.total-first)
}

// settle waits for what others have in flight on the ends.
func (j *job) settle(ctx context.Context) error {
	for i := range j.in {
		if err := j.in[i].settle(ctx, reads); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
	}
	for i := range j.out {
		if err := j.out[i].settle(ctx, writes); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

func (p *port) settle(ctx context.Context, a access) error {
	r := p.r
	if r == nil || r.a == nil {
		return nil
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	err := r.a.wait(ctx, a)
	if err == nil && r.a.overlapped.Load() {
		err = r.readyElsewhere(ctx, a)
	}
	return err
}

// stand leaves files after n elements.
func (j *job) stand(n int) error {
	var all []error
	for _, ports := range [][]port{j.in, j.out} {
		for i := range ports {
			all = append(all, ports[i].stand(n))
		}
	}
	return errors.Join(all...)
}
