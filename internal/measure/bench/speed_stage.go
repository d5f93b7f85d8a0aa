package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/workers"
)

// Ferry's target 2 and its goals, on an H200, for at least large bytes.
const (
	stageTarget    = 2
	large          = 256 << 20
	goalOfLocked   = 0.95
	goalOfDriverIn = 5
	goalOfDriver   = 3
	goalOfRing     = 0.98 // two runs of one ring in C differ by as much
)

// StageCase is a case of [SpeedStage]: a size and a direction.
type StageCase struct {
	Bytes int
	In    bool // to the device
	Huge  bool // on huge pages, which peers do not use
}

// way is one method to copy memory: Ferry's, the driver's or a peer's.
type way struct {
	name   string
	only   string // the only direction, "" for both
	most   int    // the largest size in bytes
	peer   bool   // another process copies
	sample func(StageCase) ([]float64, error)
}

// can reports whether the way can copy a case.
func (w way) can(c StageCase) bool {
	return c.Bytes <= w.most && (w.only == "" || w.only == direction(c.In)) && !(c.Huge && w.peer)
}

const (
	// driverHere is the driver's own copy of the same memory, called by this process.
	driverHere = "cuMemcpy-here"
	// driverInC is the driver's own copy, called by the peer in C.
	driverInC = "cuMemcpy"
	// locked is Ferry's copy of page-locked memory.
	locked = "page-locked"
	// ringInC is the best staging ring that was found in C.
	ringInC = "ring"
)

// SpeedStage measures copies of slices, and compares them with copies of page-locked memory
// and with the peers internal/measure/bench/peer/stage.cu and stage.py.
func SpeedStage(g *ferry.GPU, cases []StageCase, samples int, peers []Peer) ([]SpeedResult, error) {
	most, huge := 0, 0
	for _, c := range cases {
		if most = max(most, c.Bytes); c.Huge {
			huge = max(huge, c.Bytes)
		}
	}
	return runWays(g, most, huge, samples, peers, func(ways []way) (all []contest) {
		limitPeers(ways)
		for _, c := range cases {
			all = append(all, c.contest(ways))
		}
		return all
	})
}

// limitPeers limits the size of slow peers, which are all except the ring in C.
func limitPeers(ways []way) {
	for i, w := range ways {
		if w.peer && w.name != ringInC {
			ways[i].most = min(w.most, large)
		}
	}
}

// runWays runs contests of ways to copy. It allocates most bytes of memory, and huge bytes
// on huge pages, and starts the peers.
func runWays(g *ferry.GPU, most, huge, samples int, peers []Peer, contests func([]way) []contest) (results []SpeedResult, err error) {
	var undo closers
	defer func() { err = errors.Join(err, undo.close()) }()
	ways, err := openWays(g, most, huge, peers, &undo)
	if err != nil {
		return nil, err
	}
	return runAll(contests(ways), samples)
}

// contest returns the contest of a case.
func (c StageCase) contest(ways []way) contest {
	return c.among(ways, contest{
		rows: []figure{{stageTarget, fmt.Sprintf("plain slice %s, %d bytes, %s pages", direction(c.In), c.Bytes, c.pages()), c.Bytes, 0}},
		goal: func(_ figure, peer string) float64 { return c.goal(peer) },
	})
}

// pages returns the name of the size of the memory's pages.
func (c StageCase) pages() string {
	if c.Huge {
		return "2m"
	}
	return "4k"
}

// among adds the ways that can copy the case to a contest.
func (c StageCase) among(ways []way, x contest) contest {
	for _, w := range ways {
		if w.can(c) {
			x.entrants = append(x.entrants, entrant{w.name, func() ([]float64, error) { return w.sample(c) }})
		}
	}
	return x
}

// goal returns the ratio to reach in comparison with a peer, 0 for none. The driver's copy
// in this process has none.
func (c StageCase) goal(peer string) float64 {
	switch {
	case peer == locked && c.Bytes >= large:
		return goalOfLocked
	case peer == ringInC && c.Bytes >= large:
		return goalOfRing
	case peer != driverInC:
		return 0
	case c.Bytes < large:
		return 1
	case c.In:
		return goalOfDriverIn
	}
	return goalOfDriver
}

// openWays allocates memory, starts peers and returns all ways. Ferry's own way is the
// first.
func openWays(g *ferry.GPU, most, huge int, peers []Peer, undo *closers) (ways []way, err error) {
	own, err := newStageRun(g, most, huge, undo)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"", locked, driverHere} {
		ways = append(ways, way{name: name, most: most, sample: func(c StageCase) ([]float64, error) { return own.sample(name, c) }})
	}
	started, err := startAll(peers, undo)
	for _, r := range started {
		some, failed := r.ways(most)
		ways, err = append(ways, some...), errors.Join(err, failed)
	}
	return ways, err
}

// ways returns the ways of a peer. The peer lists its methods as NAME, NAME:in or NAME:out,
// followed by <=BYTES if there is a limit.
func (r *running) ways(most int) (ways []way, err error) {
	methods, err := r.methods()
	for _, m := range methods {
		name, text, limited := strings.Cut(m, "<=")
		limit := most
		if limited && err == nil {
			limit, err = strconv.Atoi(text)
		}
		name, only, _ := strings.Cut(name, ":")
		ways = append(ways, way{name, only, limit, true, func(c StageCase) ([]float64, error) {
			return r.ask(fmt.Sprint(name, " ", direction(c.In), " ", c.Bytes))
		}})
	}
	return ways, err
}

// stageRun has the objects for the copies of this process.
type stageRun struct {
	g        *ferry.GPU
	s        *ferry.Stream
	device   *ferry.Device[byte]
	locked   *ferry.Host[byte]
	pageable []byte
	huge     []byte // pageable memory on huge pages; nil if no case needs it
	turn     uint64 // counts samples, so that each has new data
}

// newStageRun allocates the memory.
func newStageRun(g *ferry.GPU, most, huge int, undo *closers) (r *stageRun, err error) {
	r = &stageRun{g: g}
	if r.pageable, err = allocPageable(most, false, undo); err != nil {
		return nil, err
	}
	if huge > 0 {
		if r.huge, err = allocPageable(huge, true, undo); err != nil {
			return nil, err
		}
	}
	if r.s, err = ferry.NewStream(g, nil); undo.add(err, r.s.Close) != nil {
		return nil, err
	}
	if r.device, err = ferry.Alloc[byte](g, most); undo.add(err, r.device.Close) != nil {
		return nil, err
	}
	r.locked, err = ferry.AllocHost[byte](g, most, nil)
	return r, undo.add(err, r.locked.Close)
}

// copy copies and waits.
func (r *stageRun) copy(dst, src ferry.Memory[byte]) error {
	return errors.Join(ferry.Copy(r.s, dst, src), r.s.Wait(context.Background()))
}

// sample copies new bytes to poisoned memory and checks them. Small data is written by one
// goroutine, large data by all, so that it is in the caches of all cores.
func (r *stageRun) sample(method string, c StageCase) ([]float64, error) {
	r.turn++
	host := r.pageable[:c.Bytes]
	if c.Huge {
		host = r.huge[:c.Bytes]
	}
	memory, device := ferry.Memory[byte](ferry.Pageable(host)), ferry.Memory[byte](r.device.Range(0, c.Bytes))
	if method == locked {
		h := r.locked.Range(0, c.Bytes)
		memory, host = h, h.Slice()
	}
	writePattern(host, r.turn)
	dst, src := device, memory
	err := ferry.Fill(r.s, device, poisoned)
	if !c.In {
		err = errors.Join(err, r.copy(device, memory))
		wipe(host)
		dst, src = memory, device
	}
	if err = errors.Join(err, r.s.Wait(context.Background())); err != nil {
		return nil, err
	}
	begin := r.g.Now()
	switch {
	case method != driverHere && (c.In || method == locked):
		err = r.copy(dst, src)
	case method != driverHere:
		err = ferry.Copy(r.s, dst, src) // returns when all bytes have arrived, like cuMemcpy
	case c.In:
		err = errors.Join(copyIn(r.g, r.device, host), r.g.Driver().StreamSynchronize(r.g.CUContext(), 0))
	default:
		err = copyOut(r.g, host, r.device)
	}
	took := r.g.Now() - begin
	if c.In {
		wipe(host)
		err = errors.Join(err, r.copy(memory, device))
	}
	if err == nil {
		err = checkPattern(host, r.turn)
	}
	return []float64{float64(took)}, err
}

// pattern returns the eight bytes at word i. They are different in every turn.
func pattern(turn uint64, i int) uint64 { return (uint64(i) ^ turn<<40) * 0x9e3779b97f4a7c15 }

// writePattern writes the bytes of a turn.
func writePattern(p []byte, turn uint64) {
	workers.For(len(p)/8, func(first, end int) {
		for i := first; i < end; i++ {
			binary.LittleEndian.PutUint64(p[8*i:], pattern(turn, i))
		}
	})
	for i := len(p) &^ 7; i < len(p); i++ {
		p[i] = byte(pattern(turn, i) >> 56)
	}
}

// checkPattern checks the bytes of a turn.
func checkPattern(p []byte, turn uint64) error {
	words := len(p) / 8
	for i := 8 * words; i < len(p); i++ {
		if p[i] != byte(pattern(turn, i)>>56) {
			return fmt.Errorf("%w: byte %d of %d", errDiffer, i, len(p))
		}
	}
	return firstWrong(words, func(i, end int) int {
		for i < end && binary.LittleEndian.Uint64(p[8*i:]) == pattern(turn, i) {
			i++
		}
		return i
	})
}

// wipe clears memory with all cores.
func wipe(p []byte) {
	workers.For(len(p), func(first, end int) { clear(p[first:end]) })
}
