package convert

import (
	"context"
	"fmt"
	"math"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/ferrybind"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Range is a part of memory: Bytes bytes that begin At bytes after it.
type Range struct{ At, Bytes int }

// Hash returns the hash of each range of m, as [Sum] computes it of the same bytes. It reads the memory
// in the order of the stream, and waits for the result. Hash is safe for concurrent use.
func (k *Kernels) Hash(ctx context.Context, s *ferry.Stream, m ferry.Memory[byte], ranges ...Range) (sums []uint64, err error) {
	if len(ranges) == 0 {
		return nil, nil
	}
	on, err := ferry.AllocAsync[uint64](s, len(ranges), nil)
	if err != nil {
		return nil, fmt.Errorf("hash %d ranges: %w", len(ranges), err)
	}
	defer func() { err = refusal.Join(err, on.Close()) }()
	if err := k.LaunchHash(s, on, m, ranges); err != nil {
		return nil, err
	}
	sums = make([]uint64, len(ranges))
	if err := ferry.CopyContext(ctx, s, ferry.Pageable(sums), on); err != nil {
		return nil, fmt.Errorf("hash %d ranges: %w", len(ranges), err)
	}
	return sums, nil
}

// LaunchHash writes the hash of each range of m to sums, in the order of the queue. It returns when that
// is queued: a launch takes 200 ranges. Kernels must be able to use the memory. Ranges need no alignment
// and may overlap. Those that begin at a multiple of 16 bytes are fastest.
//
// Nothing is queued if a range is not within the memory, or if sums does not have one word for each
// range. The error wraps cu.ErrorInvalidValue. LaunchHash is safe for concurrent use if the queue is.
func (k *Kernels) LaunchHash(q ferry.Queue, sums ferry.Memory[uint64], m ferry.Memory[byte], ranges []Range) error {
	if err := k.checkHash(sums, m, ranges); err != nil {
		return err
	}
	if len(ranges) == 0 {
		return nil
	}
	if err := ferry.Fill(q, sums, 0); err != nil {
		return fmt.Errorf("hash %d ranges: %w", len(ranges), err)
	}
	for done := 0; done < len(ranges); {
		t := hashTable{Sum: uint32(done)}
		done += t.fill(ranges[done:])
		tiles := t.First[t.Count]
		if tiles == 0 {
			continue
		}
		if err := ferrybind.Launch(k.hash, q, k.config(tiles), sums, m, t); err != nil {
			return fmt.Errorf("hash %d ranges: %w", len(ranges), err)
		}
	}
	return nil
}

// checkHash returns an error for what LaunchHash refuses.
func (k *Kernels) checkHash(sums ferry.Memory[uint64], m ferry.Memory[byte], ranges []Range) error {
	n := len(ranges)
	switch {
	case k == nil:
		return refusal.Invalid("hash %d ranges: no kernels given (nil): Load loads them", n)
	case m == nil || sums == nil:
		return refusal.Invalid("hash %d ranges: no memory given (nil)", n)
	case sums.Len() != n:
		return refusal.Invalid("hash %d ranges: the memory for the results has %d words: must have one for each", n, sums.Len())
	}
	for i, r := range ranges {
		if r.At < 0 || r.Bytes < 0 || r.At > m.Size() || r.Bytes > m.Size()-r.At {
			return refusal.Invalid("hash: range %d: %d bytes from byte %d on are not within the memory, which has %s", i, r.Bytes, r.At, refusal.Size(uintptr(m.Size())))
		}
		if r.Bytes > maxHashed {
			return refusal.Invalid("hash: range %d: %d bytes: must be at most %d", i, r.Bytes, maxHashed)
		}
	}
	return nil
}

const (
	tableRanges = 200      // of a launch, at most
	hashTile    = 8192 * 8 // bytes that a block of threads hashes at a time

	// maxHashed is how many bytes a range has at most, because tiles are counted in 32 bits.
	maxHashed = hashTile * math.MaxUint32
)

// hashTable has the layout of struct Ranges in convert.cu.
type hashTable struct {
	At, Bytes  [tableRanges]uint64
	First      [tableRanges + 1]uint32
	Count, Sum uint32
	_          uint32
}

const rangesBytes = tableRanges*2*8 + (tableRanges+4)*4

// fill fills an empty table. It returns how many ranges fit, which is at least one.
func (t *hashTable) fill(ranges []Range) int {
	for i, r := range ranges {
		tiles := uint64(r.Bytes/hashTile) + uint64(min(1, r.Bytes%hashTile))
		if i == tableRanges || uint64(t.First[i])+tiles > math.MaxUint32 {
			return i
		}
		t.At[i], t.Bytes[i] = uint64(r.At), uint64(r.Bytes)
		t.First[i+1], t.Count = t.First[i]+uint32(tiles), uint32(i+1)
	}
	return len(ranges)
}
