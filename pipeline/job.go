package pipeline

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// job describes one Run of a pipeline.
type job struct {
	*Pipeline
	tuning  tuning
	in, out []endpoint
	total   int  // elements; endless until the readers end
	byFile  bool // total is the number of elements of a file

	staged bool // goroutines fill or empty chunks
	files  bool // some endpoints are readers or writers
	copied bool // copy engines copy chunks

	size  int  // of the largest elements, in bytes
	sizes int  // of the elements of all ends together, in bytes
	chunk int  // elements of the largest chunk
	grows bool // the first chunks are smaller
	depth int  // chunks in flight
}

// endless is a number of elements that only readers know.
const endless = math.MaxInt

// newJob checks a pipeline, and decides how each endpoint is used.
func newJob(p *Pipeline) (*job, error) {
	j := &job{Pipeline: p, tuning: tuningFor(bridge.Profile(p.GPU))}
	switch {
	case p.Step == nil:
		return nil, refusal.Invalid("no Step given (nil)")
	case len(p.In)+len(p.Out) == 0:
		return nil, refusal.Invalid("it has no ends: give In or Out")
	case p.Len < 0 || p.ChunkLen < 0 || p.Depth < 0:
		return nil, refusal.Invalid("Len %d, ChunkLen %d, Depth %d: they cannot be negative", p.Len, p.ChunkLen, p.Depth)
	case p.Len == endless:
		return nil, refusal.Invalid("Len %d: that is more than can be counted", p.Len)
	case p.Pool != nil && !bridge.OwnsPool(p.GPU, p.Pool):
		return nil, refusal.Invalid("Pool is %v, which belongs to another GPU", p.Pool)
	}
	var err error
	if j.in, err = j.endpoints("input", p.In); err != nil {
		return nil, err
	}
	if j.out, err = j.endpoints("output", p.Out); err != nil {
		return nil, err
	}
	if err := refusal.Join(j.pair(), j.pairFiles(), j.count()); err != nil {
		return nil, err
	}
	return j, j.divide()
}

// endpoints makes the endpoints of all inputs, or of all outputs.
func (j *job) endpoints(what string, ends []End) ([]endpoint, error) {
	all := make([]endpoint, len(ends))
	for i, e := range ends {
		if e == nil {
			return nil, refusal.Invalid("%s %d is nil", what, i)
		}
		var err error
		if all[i], err = newEndpoint(j.GPU, e, what == "output"); err != nil {
			return nil, fmt.Errorf("%s %d: %w", what, i, err)
		}
	}
	return all, nil
}

// all yields the inputs and the outputs.
func (j *job) all(yield func(p *endpoint) bool) {
	for _, ends := range [][]endpoint{j.in, j.out} {
		for i := range ends {
			if !yield(&ends[i]) {
				return
			}
		}
	}
}

// pair checks that inputs and outputs can be used together.
func (j *job) pair() error {
	for i := range j.out {
		for k := range j.in {
			if j.out[i].clashes(&j.in[k]) {
				return refusal.Invalid("output %d overlaps input %d, but is not the same memory", i, k)
			}
		}
		for k := range i {
			if j.out[i].clashes(&j.out[k]) || j.out[i].sameAs(&j.out[k]) {
				return refusal.Invalid("output %d overlaps output %d", i, k)
			}
		}
		if j.shares(i) && j.in[i].size != j.out[i].size {
			return refusal.Invalid("in place: elements of input %d have %d bytes, those of output %d have %d", i, j.in[i].size, i, j.out[i].size)
		}
	}
	return nil
}

// shares reports whether input i and output i are in one memory for Step.
func (j *job) shares(i int) bool { return j.InPlace && i < len(j.in) && i < len(j.out) }

// count finds the number of elements, and checks the ends against it. Memory must have
// exactly that number, or more if Len is set. A file must have at least that number. If no
// end is memory and Len is 0, all files must have the same number.
func (j *job) count() error {
	j.total = endless
	if j.Len > 0 {
		j.total = j.Len
	}
	for _, memory := range []bool{true, false} {
		for p := range j.all {
			if p.isMemory != memory {
				continue
			}
			if err := j.agree(p); err != nil {
				return err
			}
		}
	}
	if j.total == endless && len(j.in) == 0 {
		return refusal.Invalid("nothing says how many elements there are: set Len")
	}
	return nil
}

// agree checks the number of elements of an endpoint against the total so far.
func (j *job) agree(p *endpoint) error {
	switch {
	case p.n == unknown:
	case j.total == endless:
		j.total, j.byFile = p.n, !p.isMemory
		if p.torn > 0 {
			return fmt.Errorf("the file ends %d bytes after its last whole element of %d: %w", p.torn, p.size, io.ErrUnexpectedEOF)
		}
	case !p.isMemory && (p.n < j.total || p.n > j.total && j.byFile):
		return fmt.Errorf("a file has %d elements, another end has %d: %w", p.n, j.total, io.ErrUnexpectedEOF)
	case p.isMemory && (p.n < j.total || p.n > j.total && j.Len == 0):
		return refusal.Invalid("%v has %d elements, but the pipeline needs %d: use ends of one length, or set Len", p.end, p.n, j.total)
	}
	return nil
}

// direct reports whether kernels use an endpoint's own memory.
func (j *job) direct(ends []endpoint, i int) bool {
	p := &ends[i]
	switch {
	case p.staged():
		return false
	case p.memory.OnDevice:
		return true
	case !j.Once || !p.memory.Mapped:
		return false
	}
	return !j.shares(i) || j.in[i].sameAs(&j.out[i])
}

// waitForEnds waits for the operations that others have in flight on the ends.
func (j *job) waitForEnds(ctx context.Context) error {
	for i := range j.in {
		if err := j.in[i].waitInFlight(ctx, false); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
	}
	for i := range j.out {
		if err := j.out[i].waitInFlight(ctx, true); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// divide finds the length of chunks and how many are in flight. It does not look at the GPU's free
// memory: see fitMemory.
func (j *job) divide() error {
	for _, ends := range [][]endpoint{j.in, j.out} {
		for i := range ends {
			p := &ends[i]
			j.staged = j.staged || p.staged()
			j.copied = j.copied || !j.direct(ends, i)
			j.files = j.files || !p.isMemory
			j.size, j.sizes = max(j.size, p.size), j.sizes+p.size
		}
	}
	if j.depth = j.Depth; j.depth == 0 {
		j.depth = j.bestDepth()
	}
	switch j.chunk = j.ChunkLen; {
	case j.chunk > math.MaxInt/j.size:
		return refusal.New(cu.ErrorOutOfMemory, "ChunkLen %d: elements of %d bytes are then more bytes than an address can count", j.chunk, j.size)
	case j.chunk > 0:
		return nil
	}
	j.chunk = j.elements(j.maxChunk())
	j.grows = j.copied
	return nil
}

// fitMemory makes chunks shorter if the GPU has less free memory than they need. A run that is kept
// has its memory, so its next job does not ask: the driver's answer takes some 60 us.
func (j *job) fitMemory(kept *run) error {
	if j.ChunkLen > 0 {
		return nil
	}
	free, _, err := j.GPU.MemInfo()
	if err == nil {
		j.chunk = min(j.chunk, j.elements(free/memoryShare/j.depth/j.sizes*j.size))
		j.fitHost(kept)
	}
	return err
}

// fitHost makes chunks shorter if their page-locked memory would be beyond the limit of the GPU, but
// not so short that each takes longer to start than to do. The memory of a run that is kept goes
// before a new one is made.
func (j *job) fitHost(kept *run) {
	room, limited := bridge.HostRoom(j.GPU)
	if !limited || j.Pool != nil {
		return
	}
	if kept != nil && kept.gpu == j.GPU {
		room += kept.hostBytes()
	}
	staged := 0 // bytes of the elements of all staged ends together
	for p := range j.all {
		if p.staged() {
			staged += p.size
		}
	}
	if staged == 0 {
		return
	}
	if bytes := room / j.depth / staged * j.size; bytes >= min(leastChunk, j.chunk*j.size) {
		j.chunk = min(j.chunk, j.elements(bytes))
	}
}

// leastChunk is the least bytes of a chunk to which a limit of page-locked memory makes it shorter.
const leastChunk = 64 << 10

// slots returns how many chunks are in flight at once: depth, but no more than there are
// chunks. Later chunks are not smaller than the first.
func (j *job) slots() int {
	return min(j.depth, (j.total-1)/j.length(0)+1)
}

// bestDepth returns how many chunks are in flight if Ferry chooses.
func (j *job) bestDepth() int {
	t := &j.tuning.chunks
	most := t.MaxPageableDepth
	switch {
	case !j.staged:
		return t.MinDepth
	case j.files:
		most = t.MaxFileDepth
	}
	return max(t.MinDepth, min(t.DepthByProcessor*runtime.GOMAXPROCS(0), most))
}

// maxChunk returns the bytes of the largest chunk, for the end with the largest elements.
//
// While the first chunk is copied in, and while the last one is copied out, no other copy
// runs. That costs the time of one chunk. Each chunk also costs the engines a pause. The
// sum of both costs is least if they are equal: sqrt(total bytes * PauseBytes).
func (j *job) maxChunk() int {
	t := &j.tuning.chunks
	most := t.MaxChunk
	switch {
	case j.staged:
		most = t.MaxStaged
	case !j.copied:
		return t.MaxDirect
	}
	if j.total == endless {
		return most
	}
	return min(max(j.root(j.total, t.PauseBytes), t.MinChunk), most)
}

// length returns how many elements the chunk has that begins with element first. The result
// is 0 or negative after the last chunk.
//
// The first chunk is small, because copies out can begin only after it is copied in. While
// both directions are busy, copies out are slower than copies in. So later chunks can be
// larger without making the copies out wait.
func (j *job) length(first int) int {
	n := j.chunk
	if j.grows {
		n = min(n, j.elements(max(n*j.size/j.tuning.chunks.FirstPart, j.root(first, j.tuning.chunks.GrowBytes))))
	}
	return min(n, j.total-first)
}

// root returns the square root of the bytes of n elements times other bytes.
func (j *job) root(n, bytes int) int {
	return int(math.Sqrt(float64(n) * float64(j.size) * float64(bytes)))
}

// elements returns how many elements a chunk has that is no larger than bytes: at least one.
func (j *job) elements(bytes int) int {
	n := bytes / j.size
	if n > evenLen {
		n -= n % evenLen
	}
	return max(n, 1)
}
