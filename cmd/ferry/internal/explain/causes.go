package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/trace"
)

// causes are in the order in which equal losses are reported.
var causes = []*cause{
	{"pageable", 1, findPageable, sayPageable, "put the data into page-locked memory (ferry.AllocHost or ferry.Register); then the call also returns at once",
		"put the data into page-locked memory (cudaMallocHost or cudaHostRegister); then cudaMemcpyAsync also returns at once", nil},
	{"wrong NUMA node", 1, findNode, sayNode, "allocate on the GPU's node: ferry.AllocHost does by default, else run under numactl --membind; ferry doctor shows the nodes",
		"allocate on the GPU's node: run under numactl --membind; ferry doctor shows the nodes", nil},
	{"too small", 16, findSmall, saySmall, "collect them in one buffer and copy once, or queue them in one call (ferry.CopyAll, a Batch)",
		"collect them in one buffer and copy once, or queue them in one call (cudaMemcpyBatchAsync)", largerChunks},
	{"synchronising call", 3, findSync, saySync, "queue the next work before waiting for this: asynchronous copies in two or more streams, and events to wait for", "", moreChunks},
	{"queued behind another", 1, findQueue, sayQueue, "issue breadth first (ferry trace overlap shows both orders), or cut the large copy into chunks", "", nil},
	{"not overlapped", 3, findSerial, saySerial, "work in chunks on two or more streams, as package pipeline does, so that copies run beside kernels",
		"work in chunks on two or more streams, so that copies run beside kernels", ownMemory},
}

// what describes the transfers of a group: "12 copies of 4.00MiB, page-locked -> device".
func (g *group) what() string {
	n := len(g.losses)
	noun := "copies"
	if n == 1 {
		noun = "copy"
	}
	each := ""
	if n > 1 {
		each = " on average"
	}
	return fmt.Sprintf("%d %s of %s%s, %s -> %s", n, noun, tracereport.Bytes(g.bytes/uint64(n)), each, g.from, g.to)
}

// rate returns the bandwidth of the transfers of a group.
func (g *group) rate() string {
	if g.time <= 0 {
		return "-"
	}
	return rate(float64(g.bytes), float64(g.time))
}

// slowerThan returns the losses of transfers against page-locked memory near the GPU.
func slowerThan(l *timeline, slow func(*transfer) bool) (all []loss) {
	for _, t := range l.ops {
		if !t.crosses() || !slow(t) {
			continue
		}
		if ns, known := l.fast(t.in(), t.Bytes); known {
			all = append(all, loss{t: t, at: t.call.Site, ns: t.ns() - ns, source: Predicted})
		}
	}
	return all
}

func findPageable(l *timeline) []loss { return slowerThan(l, (*transfer).isPageable) }

func sayPageable(g *group) string {
	return fmt.Sprintf("%s, took %s (%s); page-locked memory takes %s, predicted %s", g.what(), tracereport.Duration(g.time), g.rate(),
		tracereport.Duration(g.time-g.ns), g.on.basis())
}

// findNode finds copies of page-locked memory that is on another node than the GPU.
func findNode(l *timeline) []loss {
	if l.node == trace.NoNode {
		return nil
	}
	return slowerThan(l, func(t *transfer) bool {
		node := l.memory.node(t)
		return node != trace.NoNode && node != l.node
	})
}

func sayNode(g *group) string {
	return fmt.Sprintf("%s: the memory is on node %d and the GPU at node %d; took %s (%s), predicted %s %s", g.what(), g.on.memory.node(g.losses[0].t),
		g.on.node, tracereport.Duration(g.time), g.rate(), tracereport.Duration(g.time-g.ns), g.on.basis())
}

// smallBytes is the size above which a copy is not too small.
const smallBytes = 256 << 10

// findSmall finds lines that copy in many small pieces. What one copy of all bytes takes is
// shared out to the pieces by their bytes.
func findSmall(l *timeline) (all []loss) {
	bytes := map[[2]string]map[int]uint64{}
	isSmall := func(t *transfer) bool {
		return t.crosses() && t.Bytes <= smallBytes && t.Count == 0 && t.From != t.To // which is a prefetch
	}
	for _, t := range l.ops {
		if isSmall(t) {
			k := [2]string{t.From, t.To}
			if bytes[k] == nil {
				bytes[k] = map[int]uint64{}
			}
			bytes[k][t.call.Site] += t.Bytes
		}
	}
	for _, t := range l.ops {
		if !isSmall(t) {
			continue
		}
		total := bytes[[2]string{t.From, t.To}][t.call.Site]
		if ns, known := l.fast(t.in(), total); known {
			all = append(all, loss{t: t, at: t.call.Site, ns: t.ns() - int64(float64(ns)*float64(t.Bytes)/float64(total)), source: Predicted})
		}
	}
	return all
}

func saySmall(g *group) string {
	return fmt.Sprintf("%s, took %s (%s); one copy of %s takes %s, predicted %s", g.what(), tracereport.Duration(g.time), g.rate(),
		tracereport.Bytes(g.bytes), tracereport.Duration(g.time-g.ns), g.on.basis())
}

// waiting reports whether a call returns only after the device's work.
func waiting(c *trace.Call) bool {
	switch c.Name {
	case "cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuMemFree", "cuMemFreeHost", "cuMemHostUnregister":
		return true
	}
	return strings.HasPrefix(c.Name, "cuMemcpy") && !strings.HasSuffix(c.Name, "Async") || strings.HasPrefix(c.Name, "cuMemset") && !strings.HasSuffix(c.Name, "Async")
}

// findSync finds times in which the device had nothing to do, because the host waited for a
// transfer before it queued the next work. The host's own work between both is not lost.
func findSync(l *timeline) (all []loss) {
	var last *transfer // that ended last
	for _, next := range l.ops {
		if last != nil && next.Start > last.End && last.crosses() && !last.isPageable() {
			if w := l.waitAt(last.End, next.call); w != nil {
				ns := w.End - last.End + next.Start - max(next.call.Start, w.End)
				all = append(all, loss{t: last, at: last.call.Site, ns: min(ns, next.Start-last.End), source: l.source(), wait: w})
			}
		}
		if last == nil || next.End > last.End {
			last = next
		}
	}
	return all
}

// nearWaits bounds how many waits of other goroutines waitAt looks at.
const nearWaits = 16

// waitAt returns the waiting call that was in progress at a time and ended before another
// call began, or nil.
func (l *timeline) waitAt(at int64, before *trace.Call) *trace.Call {
	first, _ := slices.BinarySearchFunc(l.waits, at, func(c *trace.Call, at int64) int { return cmp.Compare(c.End, at) })
	for _, c := range l.waits[first:min(len(l.waits), first+nearWaits)] {
		if c.Start <= at && c.End <= before.Start {
			return c
		}
	}
	return nil
}

func saySync(g *group) string {
	n := int64(len(g.losses))
	w := g.losses[0].wait
	return fmt.Sprintf("%s: after each the device had nothing to do until the host had waited in %s%s and queued the next work, %s on average beside the host's own work",
		g.what(), w.Name, at(g.on.rec, w.Site), tracereport.Duration(g.ns/n))
}
