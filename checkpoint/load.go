package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"math"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Options are options of [Load] and [Checkpoint.Plan]. The zero value has the defaults.
type Options struct {
	// Tensors selects tensors by name. A name may be a pattern: * stands for any letters, ? for one,
	// [ab] for one of some. Each must match a tensor. Without any all tensors are loaded.
	Tensors []string
	// Select, if not nil, is called for each tensor that Tensors selects, and reports whether it is
	// loaded.
	Select func(Info) bool
	// Align is what the place of a tensor in the buffer is a multiple of: a power of two, 256 by
	// default.
	Align int
	// Into has memory for some tensors, by name. These have no place in the buffer. The memory has
	// as many bytes as the tensor, after conversion.
	Into map[string]ferry.Memory[byte]
	// To, unless NoDType, is the type that floating-point and quantized tensors have in memory. F32,
	// F16, BF16, F8_E4M3 and F8_E5M2 can become each other. Q4_0, Q8_0, Q4_K and Q6_K can become F32,
	// F16 and BF16. Integers, BOOL, C64 and F8_E8M0 stay as they are. Any other type, such as F64, is
	// an error: leave such tensors out.
	To DType
	// Also are further GPUs, of the same driver as the stream's, that get a buffer with all tensors,
	// too: see [Loaded.On]. The files are read once for all. Where the devices can, Load enables peer access
	// of the stream's GPU to these ([ferry.GPU.EnablePeer]), and the bytes go from one GPU to the
	// others. Tensors of Into are not on these GPUs.
	Also []*ferry.GPU
	// Hash, if not nil, is called for each tensor, before any is read. If it returns a hash, such as
	// sha256.New(), that gets the bytes of the tensor as the file has them: see [Placed.Sum].
	Hash func(Info) hash.Hash
	// Direct says whether files are read past the page cache.
	Direct Direct
	// DropCache lets the page cache forget what was read through it (posix_fadvise, on Linux), so that
	// a model that is read once displaces nothing else.
	DropCache bool
	// Progress, if not nil, is called now and then with the bytes that are read, of all that are to
	// be read. The goroutine of the call calls it.
	Progress func(done, total int64)
}

// Load reads tensors of a checkpoint into memory of the GPU of a stream. All of them stand in one
// buffer, one after another. Those that [Options.Into] has memory for go there.
//
// Load returns when all bytes are read, and their copies are queued in the stream: they are in
// flight on the buffer as those of ferry.CopyFrom are. Only the selected tensors are read, and up to
// 68 KiB between two of them. Host memory in use is the staging ring of the GPU.
//
// An error names the tensor, and has the byte of it if a file could not be read. It wraps
// io.ErrUnexpectedEOF if a file has become shorter, and ctx.Err() if ctx has ended. After an error
// no memory stays allocated. The memory of Into may have some of the new bytes.
//
// Load is safe for concurrent use. A nil ctx never ends. o may be nil.
func Load(ctx context.Context, s *ferry.Stream, c *Checkpoint, o *Options) (*Loaded, error) {
	l, err := load(ctx, s, c, o)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	return l, nil
}

func load(ctx context.Context, s *ferry.Stream, c *Checkpoint, o *Options) (_ *Loaded, err error) {
	if o == nil {
		o = &Options{}
	}
	if s == nil {
		return nil, refusal.Invalid("no stream given (nil)")
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	plan, err := c.place(o)
	if err != nil {
		return nil, err
	}
	l, err := newLoaded(s.GPU(), plan, o)
	if err != nil {
		return nil, err
	}
	read := false
	defer func() { // also if a function of the options panics
		if !read {
			err = refusal.Join(err, l.abandon())
		}
	}()
	if err := l.read(ctx, s, plan, o); err != nil {
		return nil, err
	}
	read = true
	return l, nil
}

// read reads all tensors.
func (l *Loaded) read(ctx context.Context, s *ferry.Stream, plan *layout, o *Options) (err error) {
	files, err := openSources(plan, o)
	if err != nil {
		return err
	}
	defer func() { err = refusal.Join(err, files.close()) }()
	r := &reading{l: l, s: s, plan: plan, o: o, files: files, hashes: makeHashes(plan, o)}
	if err := r.all(ctx); err != nil {
		return err
	}
	plan.sum(r.hashes)
	if o.DropCache {
		return files.drop(plan)
	}
	return nil
}

// reading is the state of a load.
type reading struct {
	l      *Loaded
	s      *ferry.Stream
	plan   *layout
	o      *Options
	files  sources
	hashes []hash.Hash // by slot; nil without Options.Hash
	runs   []run       // of one call of CopyParts
	done   int64       // bytes that were read
}

// all reads all tensors.
func (r *reading) all(ctx context.Context) error {
	if len(r.plan.pairs()) > 0 {
		return r.convertAll(ctx)
	}
	for i := range r.plan.slots {
		s := &r.plan.slots[i]
		r.add(piece{slot: i, bytes: s.t.Bytes, in: r.l.bufferOf(s), at: s.off})
	}
	return r.copy(ctx, r.l.also)
}

// piece is a part of a tensor in its file, and the memory for it.
type piece struct {
	slot       int
	off, bytes int64               // in the tensor
	in         *ferry.Device[byte] // that has the memory; nil for memory of Options.Into
	at         int64               // in that
}

// run is pieces that are neighbours in a file and in memory. They are one part of CopyParts, because
// each part takes its time.
type run struct {
	piece     // the first, with the bytes of all
	last  int // slot of the last
}

// add adds a piece to the next copy.
func (r *reading) add(p piece) {
	if n := len(r.runs); n > 0 && r.hashes == nil { // each hash needs a part
		if x := &r.runs[n-1]; r.continues(x, &p) {
			x.bytes += p.bytes
			x.last = p.slot
			return
		}
	}
	r.runs = append(r.runs, run{p, p.slot})
}

// continues reports whether a piece begins where a run ends, in the file and in memory.
func (r *reading) continues(x *run, p *piece) bool {
	a, b := r.plan.slots[x.slot].t, r.plan.slots[p.slot].t
	return p.in != nil && x.in == p.in && x.at+x.bytes == p.at && a.file == b.file && a.Offset+x.off+x.bytes == b.Offset+p.off
}

// copy reads what was added. also has further GPUs that get it. The copies are queued when it returns.
func (r *reading) copy(ctx context.Context, also []*Loaded) error {
	parts := make([]ferry.ReadPart, len(r.runs))
	for i := range r.runs {
		x, p := &r.runs[i], &parts[i]
		s := &r.plan.slots[x.slot]
		p.Src, p.Off = r.files[s.t.file], s.t.Offset+x.off
		if x.in == nil {
			p.Dst = s.given
			continue
		}
		p.Dst = x.in.Range(int(x.at), int(x.at+x.bytes))
		for _, l := range also {
			p.Also = append(p.Also, l.buffer.Range(int(x.at), int(x.at+x.bytes)))
		}
	}
	o := &ferry.PartsOptions{Progress: r.progress()}
	if r.hashes != nil {
		o.Hash = func(part int) hash.Hash { return r.hashes[r.runs[part].slot] }
	}
	n, err := ferry.CopyParts(ctx, r.s, parts, o)
	r.done += n
	return r.fault(err)
}

// progress returns the function that CopyParts calls with the bytes of a copy, or nil.
func (r *reading) progress() func(int64) {
	if r.o.Progress == nil {
		return nil
	}
	before := r.done
	return func(done int64) { r.o.Progress(before+done, r.plan.read) }
}

// fault names the tensor in the error of a run, and the byte of it.
func (r *reading) fault(err error) error {
	p, ok := errors.AsType[*ferry.PartError](err)
	if !ok || p.Part >= len(r.runs) {
		return err
	}
	x := &r.runs[p.Part]
	slot, at := x.slot, r.plan.slots[x.slot].t.Offset+x.off+p.Byte // in the file
	for slot < x.last && at >= r.plan.slots[slot].t.Offset+r.plan.slots[slot].t.Bytes {
		slot++
	}
	t := r.plan.slots[slot].t
	return fmt.Errorf("tensor %s, byte %d of %d: %w", printable.Value(t.Name), at-t.Offset, t.Bytes, err)
}

func makeHashes(plan *layout, o *Options) []hash.Hash {
	if o.Hash == nil {
		return nil
	}
	all := make([]hash.Hash, len(plan.slots))
	for i := range all {
		all[i] = o.Hash(*plan.slots[i].t)
	}
	return all
}

// sum sets the sums of the tensors.
func (l *layout) sum(hashes []hash.Hash) {
	l.sums = make([][]byte, len(hashes))
	for i, h := range hashes {
		if h != nil {
			l.sums[i] = h.Sum(nil)
		}
	}
}

// newLoaded allocates the buffer, and those of other GPUs.
func newLoaded(g *ferry.GPU, plan *layout, o *Options) (*Loaded, error) {
	l, err := allocate(g, plan)
	if err != nil {
		return nil, err
	}
	for _, other := range o.Also {
		also, err := allocate(other, plan)
		if err == nil {
			also.further = true
			l.also = append(l.also, also)
			err = enablePeer(g, other)
		}
		if err != nil {
			return nil, refusal.Join(err, l.abandon())
		}
	}
	return l, nil
}

// enablePeer lets g write the memory of another GPU, if the devices can. Without that each GPU gets its
// own copy from the host.
func enablePeer(g, other *ferry.GPU) error {
	can, err := g.CanAccessPeer(other)
	if err != nil || !can {
		return err
	}
	return g.EnablePeer(other)
}

// allocate allocates a buffer on a GPU.
func allocate(g *ferry.GPU, plan *layout) (*Loaded, error) {
	if plan.bytes > math.MaxInt {
		return nil, refusal.Invalid("%d bytes are more than this machine can address", plan.bytes)
	}
	buffer, err := ferry.Alloc[byte](g, int(plan.bytes))
	if err != nil {
		return nil, err
	}
	return &Loaded{gpu: g, buffer: buffer, plan: plan}, nil
}
