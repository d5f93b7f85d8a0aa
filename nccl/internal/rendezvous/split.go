package rendezvous

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// splitKey is the key of the gather by which ranks split. A caller's key does not begin so.
const splitKey = "\x00split"

// Split returns a session of the ranks that give the same color, in the order of their keys, and of
// their ranks where keys are equal. All ranks call it. A rank with color -1 gets nil. Each session is
// closed by itself. If ctx ends before all ranks have come, the error is that of [Session.Gather].
//
// Sessions that come from one Join share its connection to rank 0's process, also if that is not
// among the ranks of a split. They see losses and can gather until that process has closed all its
// sessions.
func (s *Session) Split(ctx context.Context, color, key int) (backend.Session, error) {
	if color < -1 {
		return nil, fmt.Errorf("split: the color %d of rank %d, want -1 or more", color, s.rank)
	}
	if !s.splitting.TryLock() {
		return nil, fmt.Errorf("rank %d waits for %s already", s.rank, meeting(splitKey))
	}
	defer s.splitting.Unlock()
	values, err := s.gather(ctx, splitKey, splitValue(color, key))
	if err != nil {
		return nil, err
	}
	s.splits++
	ranks := divide(values)[color]
	if color == -1 {
		return nil, nil
	}
	first := make([]int, len(ranks))
	for i, r := range ranks {
		first[i] = s.ranks[r]
	}
	part := s.port.open(splitID(s.room, s.splits, color), slices.Index(ranks, s.rank), first)
	part.send(message{kind: enter}) // what happened there before
	return part, nil
}

// splitValue is what a rank offers for a split.
func splitValue(color, key int) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(color))
	return binary.BigEndian.AppendUint64(b, uint64(key))
}

// divide returns the ranks of each color but -1, in their new order. A value that is none counts as
// color -1.
func divide(values [][]byte) map[int][]int {
	all, keys := map[int][]int{}, make([]int, len(values))
	for r, b := range values {
		if len(b) != 16 {
			continue
		}
		color := int(binary.BigEndian.Uint64(b))
		keys[r] = int(binary.BigEndian.Uint64(b[8:]))
		if color != -1 {
			all[color] = append(all[color], r)
		}
	}
	for _, ranks := range all {
		slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	}
	return all
}

// splitID returns the room of a color in the n-th split of a room. The hub and all ranks compute it.
func splitID(room uint64, n, color int) uint64 {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d %d %d", room, n, color)
	sum := sha256.Sum256(b.Bytes())
	return binary.BigEndian.Uint64(sum[:])
}
