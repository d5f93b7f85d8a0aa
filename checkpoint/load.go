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
	// To, unless NoDType, is the type that floating-point and quantized tensors have in memory.
	// Integers and BOOL stay as they are.
	To DType
	// Also are further GPUs, of the same driver as the stream's, that get a buffer with all tensors,
	// too: see [Loaded.On]. The files are read once.
	Also []*ferry.GPU
	// Hash, if not nil, is called for each tensor, before any is read. If it returns a hash, such as
	// sha256.New(), that gets the bytes of the tensor as the file has them: see [Placed.Sum].
	Hash func(Info) hash.Hash
	// Progress, if not nil, is called now and then with the bytes that are read, of all that are to
	// be read. The goroutine of the call calls it.
	Progress func(done, total int64)
}

// Load reads tensors of a checkpoint into memory of the GPU of a stream. All of them stand in one
// buffer, one after another. Those that [Options.Into] has memory for go there.
//
// Load returns when all bytes are read, and their copies are queued in the stream: they are in
// flight on the buffer as those of ferry.CopyFrom are. Only the selected tensors are read, and up to
// 64 KiB between two of them. Host memory in use is the staging ring of the GPU.
//
// An error names the tensor, and has the byte of it if a file could not be read. It wraps
// io.ErrUnexpectedEOF if a file has become shorter, and ctx.Err() if ctx has ended. After an error
// no memory stays allocated. What is in Into may be filled in part.
//
// Load is safe for concurrent use. o may be nil.
func Load(ctx context.Context, s *ferry.Stream, c *Checkpoint, o *Options) (*Loaded, error) {
	l, err := load(ctx, s, c, o)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	return l, nil
}

func load(ctx context.Context, s *ferry.Stream, c *Checkpoint, o *Options) (*Loaded, error) {
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
	if err := l.read(ctx, s, plan, o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// read reads all tensors.
func (l *Loaded) read(ctx context.Context, s *ferry.Stream, plan *layout, o *Options) error {
	parts := make([]part, len(plan.slots))
	for i := range plan.slots {
		t := &plan.slots[i].t
		parts[i] = part{src: t.file.src, off: t.Offset, dst: l.tensors[i].Memory}
		for _, also := range l.also {
			parts[i].also = append(parts[i].also, also.tensors[i].Memory)
		}
	}
	hashes := makeHashes(plan, o)
	err := copyParts(ctx, s, parts, hashes, progress(plan, o))
	if err != nil {
		return partFault(plan, err)
	}
	for i, h := range hashes {
		if h != nil {
			l.setSum(i, h.Sum(nil))
		}
	}
	return nil
}

// progress returns the function that hears of bytes, or nil.
func progress(plan *layout, o *Options) func(int64) {
	if o.Progress == nil {
		return nil
	}
	return func(done int64) { o.Progress(done, plan.read) }
}

func makeHashes(plan *layout, o *Options) []hash.Hash {
	if o.Hash == nil {
		return nil
	}
	all := make([]hash.Hash, len(plan.slots))
	for i := range all {
		all[i] = o.Hash(plan.slots[i].t)
	}
	return all
}

// partFault names the tensor in the error of a part.
func partFault(plan *layout, err error) error {
	p, ok := errors.AsType[*partError](err)
	if !ok || p.part >= len(plan.slots) {
		return err
	}
	t := &plan.slots[p.part].t
	return fmt.Errorf("tensor %s of %s: %w", printable.Value(t.Name), printable.Path(t.File), err)
}

// converts reports whether Load can convert tensors of a type to another.
func (d DType) converts(DType) bool { return false }

// newLoaded allocates the buffer, and those of other GPUs.
func newLoaded(g *ferry.GPU, plan *layout, o *Options) (*Loaded, error) {
	l, err := allocate(g, plan, o.Into)
	if err != nil {
		return nil, err
	}
	for _, other := range o.Also {
		also, err := allocate(other, plan, nil)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.also = append(l.also, also)
	}
	return l, nil
}

// allocate allocates a buffer on a GPU, and gives each tensor its place.
func allocate(g *ferry.GPU, plan *layout, into map[string]ferry.Memory[byte]) (*Loaded, error) {
	if plan.bytes > math.MaxInt {
		return nil, refusal.Invalid("%d bytes are more than this machine can address", plan.bytes)
	}
	l := &Loaded{gpu: g, tensors: make([]Placed, len(plan.slots)), byName: make(map[string]int, len(plan.slots))}
	buffer, err := ferry.Alloc[byte](g, int(plan.bytes))
	if err != nil {
		return nil, err
	}
	l.buffer = buffer
	for i := range plan.slots {
		s := &plan.slots[i]
		p := Placed{Info: s.t, As: s.dtype, Memory: into[s.t.Name]}
		if s.off >= 0 {
			p.Memory = buffer.Range(int(s.off), int(s.off+s.bytes))
		}
		l.tensors[i] = p
		l.byName[s.t.Name] = i
	}
	return l, nil
}
