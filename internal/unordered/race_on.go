//go:build race

package unordered

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

// Enabled is true in race builds.
const Enabled = true

// Report shows the race detector a conflict between two of the copies, if there is one.
// If the detector reports it, Report writes the two copies to standard error, as name
// names them.
func Report(copies []Copy, name func(i int) string) {
	c, found := find(copies)
	if !found {
		return
	}
	before := runtime.RaceErrors()
	race(c.first.writes, c.second.writes)
	if runtime.RaceErrors() == before {
		return // the detector has suppressed it
	}
	first, second := max(c.first.From, c.second.From), min(c.first.end(), c.second.end())
	fmt.Fprintf(os.Stderr, "the data race reported above is between two copies of one list, which share %d bytes:\n\t%s, which %s them\n\t%s, which %s them\n",
		second-first, name(c.first.index), verb(c.first.writes), name(c.second.index), verb(c.second.writes))
}

func verb(writes bool) string {
	if writes {
		return "writes"
	}
	return "reads"
}

// race lets two goroutines access a word without an order. The word stands for the memory:
// an access to the memory itself would race with work that is in flight before the list.
// Both goroutines live until both have accessed it, because the detector forgets the stacks
// of goroutines that have ended.
func race(firstWrites, secondWrites bool) {
	word, end := new(int), make(chan struct{})
	var accessed sync.WaitGroup
	accessed.Add(2)
	for _, writes := range []bool{firstWrites, secondWrites} {
		go func() {
			if writes {
				copyOfListWrites(word)
			} else {
				copyOfListReads(word)
			}
			accessed.Done()
			<-end
		}()
	}
	accessed.Wait()
	close(end)
}

// The functions whose names appear in reports.

//go:noinline
func copyOfListWrites(word *int) { *word = 1 }

//go:noinline
func copyOfListReads(word *int) { sink(*word) }

//go:noinline
func sink(int) {}
