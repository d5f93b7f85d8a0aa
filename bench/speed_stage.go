package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/parallel"
)

// What Ferry set out to reach, target 2, on an H200, from large bytes on.
const (
	stageTarget    = 2
	large          = 256 << 20
	goalOfLocked   = 0.95
	goalOfDriverIn = 5
	goalOfDriver   = 3
)

// StageCase is one size, direction ("in": to the device, "out") and kind of pages
// ("4k", "huge") of [SpeedStage].
type StageCase struct {
	Bytes            int
	Direction, Pages string
	Samples          int
}

// StageCases are every power of two up to most on ordinary pages, and one on huge
// pages, too. Of what is small there are more samples, as they are cheap and vary,
// and of what is very large there are fewer.
func StageCases(most, samples int) []StageCase {
	var all []StageCase
	for n := 1; n <= most; n *= 2 {
		some := samples
		switch {
		case n < 1<<20:
			some *= 3
		case n > large:
			some = (samples + 1) / 2
		}
		for _, d := range []string{"in", "out"} {
			all = append(all, StageCase{n, d, "4k", some})
			if n == large {
				all = append(all, StageCase{n, d, "huge", some})
			}
		}
	}
	return all
}

// stageMethod copies, up to most bytes; sample does so once and gives the time in ns.
type stageMethod struct {
	name   string
	most   int
	sample func(method string, c StageCase) (float64, error)
}

// cuMemcpyHere is the driver's own copy of ordinary memory, called by this process: to
// compare with, not a goal.
const cuMemcpyHere = "cuMemcpy-here"

// SpeedStage measures copies of ordinary memory beside those of page-locked memory
// and of peers, in turns: bench/peer/stage.cu and stage.py. memory makes memory on
// ordinary or huge pages.
func SpeedStage(g *ferry.GPU, cases []StageCase, peers []Peer, memory func(n int, huge bool) ([]byte, error)) (results []SpeedResult, err error) {
	most := 0
	for _, c := range cases {
		most = max(most, c.Bytes)
	}
	own, err := newStageRun(g, most, memory)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, own.close()) }()
	methods := []stageMethod{{"", most, own.sample}, {"page-locked", most, own.sample}, {cuMemcpyHere, most, own.sample}}
	for _, p := range peers {
		r, err := p.start()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.stop()) }()
		line, err := r.out.ReadString('\n') // its methods
		if err != nil {
			return nil, fmt.Errorf("peer %s: %w", p.Name, err)
		}
		for _, m := range strings.Fields(line) {
			name, limit, limited := strings.Cut(m, "<=")
			method := stageMethod{name, most, r.stage}
			if limited {
				if method.most, err = strconv.Atoi(limit); err != nil {
					return nil, fmt.Errorf("peer %s: %w", p.Name, err)
				}
			}
			methods = append(methods, method)
		}
	}
	for _, c := range cases {
		some := slices.DeleteFunc(slices.Clone(methods), func(m stageMethod) bool { return c.Bytes > m.most })
		samples, err := c.measure(some)
		if err != nil {
			return nil, err
		}
		results = append(results, c.results(some[1:], samples)...)
	}
	return results, nil
}

// stage is a sample of a peer.
func (r *running) stage(method string, c StageCase) (ns float64, err error) {
	if _, err = fmt.Fprintln(r.in, method, c.Direction, c.Pages, c.Bytes); err == nil {
		_, err = fmt.Fscanln(r.out, &ns)
	}
	if err == nil && ns <= 0 {
		err = errors.New("the bytes differ")
	}
	if err != nil {
		return 0, fmt.Errorf("%s of %d bytes %s by %s: %w", method, c.Bytes, c.Direction, r.Name, err)
	}
	return ns, nil
}

// measure takes the samples of all methods in turns, after one for warming up.
func (c StageCase) measure(methods []stageMethod) (map[string][]float64, error) {
	samples := map[string][]float64{}
	for turn := range c.Samples + 1 {
		for _, i := range rand.Perm(len(methods)) {
			name := methods[i].name
			ns, err := methods[i].sample(name, c)
			if err != nil {
				return nil, err
			}
			if turn > 0 {
				samples[name] = append(samples[name], float64(c.Bytes)/ns*1e9)
			}
		}
	}
	return samples, nil
}

// results are Ferry's bandwidth beside that of each method.
func (c StageCase) results(methods []stageMethod, samples map[string][]float64) []SpeedResult {
	var all []SpeedResult
	for _, method := range methods {
		m := method.name
		r := SpeedResult{Target: stageTarget, What: fmt.Sprintf("plain slice %s, %d bytes, %s pages", c.Direction, c.Bytes, c.Pages), Unit: "bytes_per_s",
			Ferry: middle(samples[""]), PeerName: m, Peer: middle(samples[m]), GoalRatio: c.goal(m), Samples: c.Samples, MAD: spread(samples[""]), PeerMAD: spread(samples[m])}
		all = append(all, r.judge())
	}
	return all
}

// goal is the ratio to reach, 0 for none.
func (c StageCase) goal(method string) float64 {
	switch {
	case method == "page-locked" && c.Bytes >= large:
		return goalOfLocked
	case method != "cuMemcpy":
		return 0
	case c.Bytes < large:
		return 1
	case c.Direction == "in":
		return goalOfDriverIn
	}
	return goalOfDriver
}

// stageRun is Ferry's own copies.
type stageRun struct {
	g      *ferry.GPU
	s      *ferry.Stream
	device *ferry.Device[byte]
	locked *ferry.Host[byte]
	pages  map[string][]byte
	turn   uint64
}

// newStageRun takes the memory.
func newStageRun(g *ferry.GPU, most int, memory func(n int, huge bool) ([]byte, error)) (*stageRun, error) {
	r := &stageRun{g: g, pages: map[string][]byte{}}
	var err error
	for name, huge := range map[string]bool{"4k": false, "huge": true} {
		if r.pages[name], err = memory(most, huge); err != nil {
			return nil, err
		}
	}
	if r.s, err = g.NewStream(nil); err != nil {
		return nil, err
	}
	if r.device, err = ferry.Alloc[byte](g, most); err != nil {
		return nil, err
	}
	r.locked, err = ferry.AllocHost[byte](g, most, nil)
	return r, err
}

func (r *stageRun) close() error { return errors.Join(r.device.Close(), r.locked.Close(), r.s.Close()) }

// copy copies and waits.
func (r *stageRun) copy(dst, src ferry.Memory[byte]) error {
	return errors.Join(ferry.Copy(r.s, dst, src), r.s.Wait(context.Background()))
}

// sample copies fresh bytes to poisoned ones, and checks them. Small data is written
// by one goroutine, large data by all, so that it is in the caches of as many cores.
func (r *stageRun) sample(method string, c StageCase) (float64, error) {
	r.turn++
	host := r.pages[c.Pages][:c.Bytes]
	memory, device := ferry.Memory[byte](ferry.Plain(host)), ferry.Memory[byte](r.device.Range(0, c.Bytes))
	if method == "page-locked" {
		locked := r.locked.Range(0, c.Bytes)
		memory, host = locked, locked.Slice()
	}
	scatter(host, r.turn)
	dst, src := device, memory
	err := ferry.Fill(r.s, device, byte(0xee))
	if c.Direction == "out" {
		err = errors.Join(err, r.copy(device, memory))
		parallel.For(len(host), func(first, end int) { clear(host[first:end]) })
		dst, src = memory, device
	}
	if err = errors.Join(err, r.s.Wait(context.Background())); err != nil {
		return 0, err
	}
	begin := time.Now()
	switch {
	case method != cuMemcpyHere:
		err = r.copy(dst, src)
	case c.Direction == "in":
		err = errors.Join(copyIn(r.g, r.device, host), r.g.Driver().StreamSynchronize(r.g.Context(), 0))
	default:
		err = copyOut(r.g, host, r.device)
	}
	took := time.Since(begin)
	if c.Direction == "in" {
		parallel.For(len(host), func(first, end int) { clear(host[first:end]) })
		err = errors.Join(err, r.copy(memory, device))
	}
	if err == nil && !scattered(host, r.turn) {
		err = fmt.Errorf("%d bytes %s: some differ", c.Bytes, c.Direction)
	}
	return float64(took), err
}

// scatterAt is eight bytes at an offset that no other turn has there.
func scatterAt(turn uint64, i int) uint64 { return (uint64(i) ^ turn<<40) * 0x9e3779b97f4a7c15 }

// scatter writes bytes that no other turn has.
func scatter(p []byte, turn uint64) {
	parallel.For(len(p)/8, func(first, end int) {
		for i := first; i < end; i++ {
			binary.LittleEndian.PutUint64(p[8*i:], scatterAt(turn, i))
		}
	})
	for i := len(p) &^ 7; i < len(p); i++ {
		p[i] = byte(scatterAt(turn, i) >> 56)
	}
}

// scattered says whether they are as scatter wrote them.
func scattered(p []byte, turn uint64) bool {
	var differ atomic.Bool
	parallel.For(len(p)/8, func(first, end int) {
		for i := first; i < end; i++ {
			if binary.LittleEndian.Uint64(p[8*i:]) != scatterAt(turn, i) {
				differ.Store(true)
				return
			}
		}
	})
	for i := len(p) &^ 7; i < len(p); i++ {
		if p[i] != byte(scatterAt(turn, i)>>56) {
			return false
		}
	}
	return !differ.Load()
}
