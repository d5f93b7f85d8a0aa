package crew

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// together calls work that ends only when n are at it.
func together(t *testing.T, c *Crew, n int) {
	t.Helper()
	var at, out sync.WaitGroup
	at.Add(n)
	out.Add(n)
	c.Call(n, func() {
		at.Done()
		at.Wait()
		out.Done()
	})
	out.Wait()
}

// TestTogether: as many as were called are at work at once, again and again.
func TestTogether(t *testing.T) {
	var c Crew
	defer c.Close()
	for _, n := range []int{1, 5, 12, 3, 12, 40, 1} {
		for range 20 {
			together(t, &c, n)
		}
	}
}

// TestMany: calls of many goroutines at once are each answered by all they asked for.
func TestMany(t *testing.T) {
	var c Crew
	defer c.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				together(t, &c, 4)
			}
		})
	}
	all.Wait()
	if n := c.owed.Load(); n != 0 {
		t.Errorf("%d are owed", n)
	}
}

// TestBusyMembers: work does not wait for members that hang elsewhere.
func TestBusyMembers(t *testing.T) {
	var c Crew
	defer c.Close()
	hang := make(chan struct{})
	var hung sync.WaitGroup
	hung.Add(3)
	c.Call(3, func() { hung.Done(); <-hang })
	hung.Wait()
	together(t, &c, 3)
	together(t, &c, 3)
	close(hang)
}

// TestFewAreKept: of the members that a crowd needed no more stay than one call
// wants, and none of a closed crew.
func TestFewAreKept(t *testing.T) {
	var c Crew
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { together(t, &c, 4) })
	}
	all.Wait()
	eventually(t, "members", &c.members, 4)
	together(t, &c, 4)
	c.Close()
	eventually(t, "members of a closed crew", &c.members, 0)
}

func eventually(t *testing.T, what string, n *atomic.Int64, most int64) {
	t.Helper()
	for begin := time.Now(); n.Load() > most; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%d %s, want %d at most", n.Load(), what, most)
		}
	}
}

// TestBells: whoever waits hears a bell, also one that rang just before.
func TestBells(t *testing.T) {
	for name, b := range map[string]interface {
		rung() uint32
		ring()
		wait(rung uint32)
	}{"bell": new(bell), "slow": new(slowBell)} {
		var heard atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			before := b.rung()
			all.Go(func() {
				for b.rung() == before {
					b.wait(before)
				}
				heard.Add(1)
			})
		}
		time.Sleep(time.Millisecond)
		b.ring()
		all.Wait()
		before := b.rung()
		b.ring()
		b.wait(before)
		if heard.Load() != 8 {
			t.Errorf("%s: %d heard it", name, heard.Load())
		}
	}
}
