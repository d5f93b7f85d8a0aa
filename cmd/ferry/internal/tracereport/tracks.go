package tracereport

import "container/heap"

// track is a row of slices that do not overlap.
type track struct {
	tid int
	end int64 // of its last slice
	at  int   // index in the heap
}

// tracks are those of one name. What runs at the same time is on several. The first free
// one of the first few is used, as a reader expects. Of the others it is the one that ended
// first, so that thousands cost little.
type tracks struct {
	first []*track
	rest  byEnd
}

// inOrder is how many tracks are looked at in order.
const inOrder = 64

func (g *tracks) count() int { return len(g.first) + len(g.rest) }

// free returns a track whose last slice has ended at start, or nil.
func (g *tracks) free(start int64) *track {
	for _, t := range g.first {
		if start >= t.end-rounding {
			return t
		}
	}
	if len(g.rest) > 0 && start >= g.rest[0].end-rounding {
		return g.rest[0]
	}
	return nil
}

// add adds a track.
func (g *tracks) add(t *track) {
	if len(g.first) < inOrder {
		t.at = -1
		g.first = append(g.first, t)
		return
	}
	heap.Push(&g.rest, t)
}

// use ends the last slice of a track later.
func (g *tracks) use(t *track, end int64) {
	t.end = end
	if t.at >= 0 {
		heap.Fix(&g.rest, t.at)
	}
}

// byEnd is a heap of tracks.
type byEnd []*track

func (h byEnd) Len() int           { return len(h) }
func (h byEnd) Less(i, j int) bool { return h[i].end < h[j].end }
func (h byEnd) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *byEnd) Push(x any) {
	t := x.(*track)
	t.at = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *byEnd) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
