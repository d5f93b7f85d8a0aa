package checkpoint

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// MismatchError is the error of a tensor whose bytes in memory are not those of the file.
type MismatchError struct {
	Tensor, File string
	Bytes        int64
	Device, Want uint64 // the hashes of the bytes in memory and in the file
}

// Error returns a text with both hashes.
func (e *MismatchError) Error() string {
	if e == nil {
		return "no error"
	}
	return fmt.Sprintf("tensor %s: the device has other bytes than %s: hashes of %d bytes are %#016x and %#016x",
		printable.Value(e.Tensor), printable.Path(e.File), e.Bytes, e.Device, e.Want)
}

// Verify reads the tensors of l from their files again, and compares a hash of their bytes with one that
// the GPU of the stream computes of its memory. It is for tests of a machine, and for weights that
// something may have overwritten. The hash finds errors, such as blocks that are missing or swapped. It
// is not cryptographic: who wants to can make other bytes that have the same hash.
//
// Verify reads memory in the order of the stream, and returns when all is compared. The files must
// still be open. Tensors that were converted have other bytes than their files, so they are refused
// with cu.ErrorInvalidValue. The first tensor that differs is a [*MismatchError]. progress, if not nil,
// is called with the bytes of the files that are read, by the goroutine of the call. A nil ctx never
// ends. Memory of [Options.Into] that the GPU of the stream cannot use, such as ferry.Pageable, is
// refused. On a further GPU, Verify compares the tensors of [Loaded.On]. Verify is safe for concurrent
// use.
func Verify(ctx context.Context, s *ferry.Stream, l *Loaded, progress func(done, total int64)) error {
	if err := verify(await.Context(ctx), s, l, progress); err != nil {
		return fmt.Errorf("verify checkpoint: %w", err)
	}
	return nil
}

func verify(ctx context.Context, s *ferry.Stream, l *Loaded, progress func(done, total int64)) (err error) {
	if s == nil || l == nil {
		return refusal.Invalid("no stream or no tensors given (nil)")
	}
	if l = l.On(s.GPU()); l == nil {
		return refusal.Invalid("the tensors are not on %v", s.GPU())
	}
	var slots []*slot
	for _, x := range l.slots() {
		if x.dtype != x.t.DType {
			return refusal.Invalid("tensor %s was converted from %v to %v: only tensors as the file has them can be verified", printable.Value(x.t.Name), x.t.DType, x.dtype)
		}
		slots = append(slots, x)
	}
	got, err := l.hashes(ctx, s, slots)
	if err != nil {
		return err
	}
	v := &verifying{ctx: ctx, slots: slots, want: make([]uint64, len(got)), failed: make([]error, len(got))}
	if err := v.readAll(progress); err != nil {
		return err
	}
	for i, sum := range got {
		if t := slots[i].t; sum != v.want[i] {
			return &MismatchError{t.Name, t.File, t.Bytes, sum, v.want[i]}
		}
	}
	return nil
}

// hashes returns the hashes that the GPU computes.
func (l *Loaded) hashes(ctx context.Context, s *ferry.Stream, slots []*slot) (sums []uint64, err error) {
	k, err := convert.Load(l.gpu)
	if err != nil {
		return nil, err
	}
	defer func() { err = refusal.Join(err, k.Close()) }()
	ranges := make([]convert.Range, len(slots)) // empty for memory of Options.Into
	for i, x := range slots {
		if x.given == nil {
			ranges[i] = convert.Range{At: int(x.off), Bytes: int(x.bytes)}
		}
	}
	if sums, err = k.Hash(ctx, s, l.buffer, ranges...); err != nil {
		return nil, err
	}
	for i, x := range slots {
		if x.given == nil {
			continue
		}
		one, err := k.Hash(ctx, s, x.given, convert.Range{Bytes: int(x.bytes)})
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", printable.Value(x.t.Name), err)
		}
		sums[i] = one[0]
	}
	return sums, nil
}

// verifying reads tensors from files, by several goroutines.
type verifying struct {
	ctx      context.Context
	slots    []*slot
	want     []uint64
	failed   []error
	next     atomic.Int64
	done     atomic.Int64
	stop     atomic.Bool
	steps    chan bool // true after a block, false when a goroutine has ended
	panicked atomic.Pointer[any]
}

// readAll computes the hashes of all tensors. Once ctx has ended it does not wait for a ReadAt that
// hangs.
func (v *verifying) readAll(progress func(done, total int64)) error {
	total, readers := int64(0), min(runtime.GOMAXPROCS(0), max(len(v.slots), 1))
	for _, x := range v.slots {
		total += x.bytes
	}
	v.steps = make(chan bool)
	for range readers {
		go v.read()
	}
	for readers > 0 {
		select {
		case more := <-v.steps:
			if !more {
				readers--
			} else if progress != nil {
				progress(v.done.Load(), total)
			}
		case <-v.ctx.Done():
			return v.ctx.Err()
		}
	}
	if p := v.panicked.Load(); p != nil {
		panic(*p)
	}
	return refusal.Join(v.failed...)
}

// tell tells readAll of a step.
func (v *verifying) tell(more bool) {
	select {
	case v.steps <- more:
	case <-v.ctx.Done():
	}
}

const verifyBlock = 4 << 20 // bytes that a goroutine reads at once

// read computes hashes until all tensors are taken.
func (v *verifying) read() {
	defer v.tell(false)
	defer func() {
		if p := recover(); p != nil { // of a reader of the program
			v.panicked.Store(&p)
		}
	}()
	block := make([]byte, verifyBlock)
	for {
		i := int(v.next.Add(1)) - 1
		if i >= len(v.slots) || v.stop.Load() || v.ctx.Err() != nil {
			return
		}
		if v.want[i], v.failed[i] = v.sum(v.slots[i].t, block); v.failed[i] != nil {
			v.stop.Store(true)
		}
	}
}

// sum returns the hash of a tensor's bytes in its file.
func (v *verifying) sum(t *Info, block []byte) (uint64, error) {
	var d convert.Digest
	for at := int64(0); at < t.Bytes && v.ctx.Err() == nil; {
		part := block[:min(verifyBlock, t.Bytes-at)]
		if n, err := t.file.src.ReadAt(part, t.Offset+at); n < len(part) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, fmt.Errorf("tensor %s, byte %d of %d: read %s: %w", printable.Value(t.Name), at+int64(n), t.Bytes, printable.Path(t.File), err)
		}
		_, _ = d.Write(part)
		at += int64(len(part))
		v.done.Add(int64(len(part)))
		v.tell(true)
	}
	return d.Sum64(), nil
}
