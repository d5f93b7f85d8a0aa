package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// splitAll splits sessions by color and key.
func splitAll[S backend.Session](t *testing.T, all []S, color, key func(r int) int) []backend.Session {
	t.Helper()
	parts := make([]backend.Session, len(all))
	var done sync.WaitGroup
	for r, s := range all {
		done.Go(func() {
			var err error
			if parts[r], err = s.Split(context.Background(), color(r), key(r)); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	return parts
}

// TestSplit: parts gather by themselves, in the order of keys, and can be split again. The whole goes on.
func TestSplit(t *testing.T) {
	all := Local(6)
	parts := splitAll(t, all, func(r int) int { return r%3 - 1 }, func(r int) int { return -r })
	var done sync.WaitGroup
	for r, p := range parts {
		if r%3 == 0 {
			if p != nil {
				t.Errorf("rank %d with color -1 got %v", r, p)
			}
			continue
		}
		done.Go(func() {
			if p.Size() != 2 || p.Rank() != 1-r/3 {
				t.Errorf("rank %d became %d of %d", r, p.Rank(), p.Size())
			}
			got, err := p.Gather(context.Background(), "key", []byte{byte(r)})
			if want := [][]byte{{byte(r%3 + 3)}, {byte(r % 3)}}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("rank %d: got %v, %v, want %v", r, got, err, want)
			}
		})
	}
	done.Wait()
	quarter := splitAll(t, []backend.Session{parts[1], parts[4]}, func(r int) int { return r }, func(int) int { return 0 })
	if got, err := quarter[1].Gather(context.Background(), "k", []byte("x")); err != nil || len(got) != 1 || quarter[1].Size() != 1 {
		t.Errorf("a part of a part: %q, %v", got, err)
	}
	for _, s := range slices.Concat(quarter, []backend.Session{parts[1], parts[2], parts[4], parts[5]}) {
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
	for _, s := range all { // after the first Close others get to know that it has left
		done.Go(func() { _, _ = s.Gather(context.Background(), "last", nil) })
	}
	done.Wait()
	for _, s := range all {
		if err := s.Close(); err != nil || s.Err() != nil {
			t.Error(err, s.Err())
		}
	}
}

// TestAbandon: the others find who has aborted, and why: of a part its ranks alone, of the whole all.
func TestAbandon(t *testing.T) {
	all := Local(4)
	parts := splitAll(t, all, func(r int) int { return r / 2 }, func(int) int { return 0 })
	if err := parts[1].Abandon(errors.New("planted")); err != nil {
		t.Error(err)
	}
	lostBy(t, parts[0], 1, "planted")
	if _, err := parts[0].Gather(context.Background(), "k", nil); err == nil {
		t.Error("a part without one of its ranks gathers")
	}
	select {
	case <-parts[2].Lost():
		t.Error("another part lost a rank, too")
	case <-all[0].Lost():
		t.Error("the whole lost a rank")
	case <-time.After(10 * time.Millisecond):
	}
	if err := all[3].Abandon(nil); err != nil {
		t.Error(err)
	}
	lostBy(t, all[0], 3, "its program said so")
	lostBy(t, parts[2], 1, "its program said so")
	if err := parts[2].Close(); err != nil {
		t.Error(err)
	}
}

// lostBy wants that a session has lost a rank that has aborted.
func lostBy(t *testing.T, s backend.Session, rank int, why string) {
	t.Helper()
	select {
	case <-s.Lost():
	case <-time.After(5 * time.Second):
		t.Fatal("no rank was lost")
	}
	lost, ok := errors.AsType[*LostError](s.Err())
	if !ok || lost.Rank != rank || !lost.Aborted || !strings.Contains(lost.Error(), why) {
		t.Errorf("got %v, want the end of rank %d by %q", s.Err(), rank, why)
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
