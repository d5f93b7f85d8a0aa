package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// splitAll splits all sessions at once.
func splitAll(t *testing.T, all []*Session, color, key func(rank int) int) []backend.Session {
	t.Helper()
	parts := make([]backend.Session, len(all))
	each(all, func(s *Session) {
		var err error
		if parts[s.Rank()], err = s.Split(t.Context(), color(s.Rank()), key(s.Rank())); err != nil {
			t.Errorf("rank %d: %v", s.Rank(), err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return parts
}

// checkPart demands that the sessions hand around the numbers in want, which the first has at its
// rank 0 and so on.
func checkPart(t *testing.T, parts []backend.Session, want ...int) {
	t.Helper()
	done := make(chan struct{})
	for _, r := range want {
		go func() {
			defer func() { done <- struct{}{} }()
			s := parts[r]
			got, err := s.Gather(t.Context(), "part", []byte{byte(r)})
			if err != nil || s.Size() != len(want) || want[s.Rank()] != r {
				t.Errorf("rank %d is %d of %d: %v", r, s.Rank(), s.Size(), err)
				return
			}
			for i, b := range got {
				if int(b[0]) != want[i] {
					t.Errorf("rank %d got %d at %d, want %d", r, b[0], i, want[i])
				}
			}
		}()
	}
	for range want {
		<-done
	}
}

// TestSplit: ranks split by colors, in the order of keys, split again, and use each session after the
// others are closed.
func TestSplit(t *testing.T) {
	for name, all := range map[string][]*Session{"tcp": joinAll(t, 7), "local": Local(7)} {
		t.Run(name, func(t *testing.T) {
			parts := splitAll(t, all, func(r int) int { return []int{0, 1, 0, 1, 0, 1, -1}[r] }, func(r int) int { return []int{-1, 5, -2, 5, -3, 4, 0}[r] })
			if parts[6] != nil {
				t.Errorf("color -1 has the session %v", parts[6])
			}
			checkPart(t, parts, 4, 2, 0)
			checkPart(t, parts, 5, 1, 3) // equal keys: in the order of ranks
			again := splitAll(t, []*Session{all[0], all[1], all[2], all[3], all[4], all[5], all[6]}, func(r int) int { return r / 4 }, func(int) int { return 0 })
			checkPart(t, again, 0, 1, 2, 3)
			checkPart(t, again, 4, 5, 6)
			low := []*Session{again[0].(*Session), again[1].(*Session), again[2].(*Session), again[3].(*Session)}
			pairs := splitAll(t, low, func(r int) int { return r % 2 }, func(r int) int { return -r })
			checkPart(t, pairs, 2, 0)
			high := []*Session{again[4].(*Session), again[5].(*Session), again[6].(*Session)}
			three := make([]backend.Session, 7)
			copy(three[4:], splitAll(t, high, func(int) int { return 9 }, func(r int) int { return -r }))
			checkPart(t, three, 6, 5, 4)
			if got := three[4].(*Session).ranks; !slices.Equal(got, []int{6, 5, 4}) {
				t.Errorf("the session has the ranks %v", got)
			}
			each(low, func(s *Session) { s.Close() })
			each(all, func(s *Session) { s.Close() })
			checkPart(t, parts, 4, 2, 0)
			checkPart(t, parts, 5, 1, 3)
			checkPart(t, pairs, 3, 1)
			for _, list := range [][]backend.Session{pairs, parts[:6], again[4:], three[4:]} {
				for _, s := range list {
					if err := s.Err(); err != nil {
						t.Error(err)
					}
					s.Close()
				}
			}
		})
	}
}

// TestPartMissing: the error of a part has the numbers of the part.
func TestPartMissing(t *testing.T) {
	all := Local(4)
	parts := splitAll(t, all, func(r int) int { return r % 2 }, func(int) int { return 0 })
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer stop()
	_, err := parts[3].Gather(ctx, "k", nil)
	missing, ok := errors.AsType[*MissingError](err)
	if !ok || missing.Rank != 1 || !slices.Equal(missing.Missing, []int{0}) || !slices.Equal(missing.Came, []int{1}) {
		t.Errorf("got %v", err)
	}
}

// TestSplitMissing: a split that a rank does not come to names it. Two at once are refused.
func TestSplitMissing(t *testing.T) {
	all := Local(3)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	each(all[:2], func(s *Session) {
		_, err := s.Split(ctx, 0, 0)
		if err == nil || !strings.Contains(err.Error(), "for all ranks to split: ranks 0 and 1 came, rank 2 did not") {
			t.Errorf("rank %d: %v", s.Rank(), err)
		}
	})
	if _, err := all[0].Split(ctx, -2, 0); err == nil || !strings.Contains(err.Error(), "color -2") {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go all[0].Split(ctx, 0, 0)
	for len(busy(all[0])) == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := all[0].Split(ctx, 0, 0); err == nil || !strings.Contains(err.Error(), "rank 0 waits for all ranks to split already") {
		t.Error(err)
	}
}

// TestAbandon: a rank that abandons a session is lost in it, with the reason, and nowhere else.
func TestAbandon(t *testing.T) {
	for name, all := range map[string][]*Session{"tcp": joinAll(t, 5), "local": Local(5)} {
		for _, gone := range []int{3, 0} {
			t.Run(fmt.Sprint(name, " ", gone), func(t *testing.T) {
				parts := splitAll(t, all, func(r int) int { return min(r%3, 1) }, func(r int) int { return -r }) // 3 0, and 4 2 1
				early := splitAll(t, all, func(int) int { return 0 }, func(int) int { return 0 })
				parts[gone].Abandon(errors.New("the kernel is\ntired"))
				other := parts[3-gone].(*Session)
				checkLost(t, other, parts[gone].Rank())
				for _, want := range []string{"has aborted (rank", ": the kernel is\\ntired", fmt.Sprintf("rank %d of all ranks", gone)} {
					if !strings.Contains(other.Err().Error(), want) {
						t.Errorf("%v has not %q", other.Err(), want)
					}
				}
				if _, err := parts[gone].Gather(t.Context(), "k", nil); !errors.Is(err, ErrClosed) {
					t.Errorf("the rank that gave up: %v", err)
				}
				checkPart(t, parts, 4, 2, 1)
				for _, s := range all {
					if s.Err() != nil {
						t.Error(s.Err())
					}
				}
				checkPart(t, early, 0, 1, 2, 3, 4)
				for _, s := range append(parts, early...) {
					s.Close()
				}
			})
		}
		all[2].Abandon(nil)
		each(append(all[:2:2], all[3:]...), func(s *Session) { checkLost(t, s, 2) })
		each(all, func(s *Session) { s.Close() })
	}
}

// TestLostInSplit: the end of a process reaches all sessions with its rank, and a session that is
// opened later learns what happened before.
func TestLostInSplit(t *testing.T) {
	h := newHub(3)
	ports := []*port{newPort(), newPort(), newPort()}
	for r, p := range ports {
		p.toHub = func(m message) { h.take(r, m) }
		h.seat(r, p, "a rank of this process")
		p.openFirst(r, 3)
	}
	id := splitID(0, 1, 0)
	for r := range 3 {
		h.take(r, message{kind: offer, key: splitKey, parts: [][]byte{splitValue(min(r%2, 1), 0)}})
	}
	open := ports[0].open(id, 0, []int{0, 2})
	other := ports[1].open(splitID(0, 1, 1), 0, []int{1})
	h.lose(2, "it broke")
	for _, s := range []*Session{open, ports[0].sessions[0], ports[1].sessions[0]} {
		checkLost(t, s, s.Size()-1)
	}
	if other.Err() != nil {
		t.Errorf("a session without the rank has the error %v", other.Err())
	}
	late := ports[0].open(id, 0, []int{0, 2}) // in the place of the first
	late.send(message{kind: enter})
	checkLost(t, late, 1)

	ports[0].rootLost("it broke")
	if s := ports[0].open(5, 0, []int{1, 3}); s.Err() == nil || !strings.Contains(s.Err().Error(), "rank 0 of all ranks, which connects those of this session, has ended without closing its session (it broke)") {
		t.Errorf("a session opened after the loss of rank 0: %v", s.Err())
	}
	ports[1].rootLeft()
	if _, err := ports[1].open(5, 0, []int{1, 3}).Gather(t.Context(), "k", nil); err == nil || !strings.Contains(err.Error(), "rank 0 has closed its session") {
		t.Errorf("a session opened after rank 0 has left: %v", err)
	}
}
