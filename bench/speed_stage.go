package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
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

// StageCases are every power of two up to most on ordinary pages, and what is
// large on huge pages, too.
func StageCases(most, samples int) []StageCase {
	var all []StageCase
	for n := 1; n <= most; n *= 2 {
		if n == 2*large {
			continue
		}
		for _, d := range []string{"in", "out"} {
			all = append(all, StageCase{n, d, "4k", samples})
			if n == large {
				all = append(all, StageCase{n, d, "huge", samples})
			}
		}
	}
	return all
}

// sampleStage copies once by a method.
type sampleStage func(method string, c StageCase) (float64, error)

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
	by := map[string]sampleStage{"": own.sample, "page-locked": own.sample}
	order := []string{"", "page-locked"}
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
			by[m] = r.stage
			order = append(order, m)
		}
	}
	for _, c := range cases {
		samples, err := c.measure(by, order)
		if err != nil {
			return nil, err
		}
		results = append(results, c.results(order[1:], samples)...)
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
func (c StageCase) measure(by map[string]sampleStage, order []string) (map[string][]float64, error) {
	samples := map[string][]float64{}
	for turn := range c.Samples + 1 {
		for _, i := range rand.Perm(len(order)) {
			ns, err := by[order[i]](order[i], c)
			if err != nil {
				return nil, err
			}
			if turn > 0 {
				samples[order[i]] = append(samples[order[i]], float64(c.Bytes)/ns*1e9)
			}
		}
	}
	return samples, nil
}

// results are Ferry's bandwidth beside that of each method.
func (c StageCase) results(methods []string, samples map[string][]float64) []SpeedResult {
	var all []SpeedResult
	for _, m := range methods {
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
	s      *ferry.Stream
	device *ferry.Device[byte]
	locked *ferry.Host[byte]
	pages  map[string][]byte
	turn   uint64
}

// newStageRun takes the memory.
func newStageRun(g *ferry.GPU, most int, memory func(n int, huge bool) ([]byte, error)) (*stageRun, error) {
	r := &stageRun{pages: map[string][]byte{}}
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

// sample copies fresh bytes to poisoned ones, and checks them.
func (r *stageRun) sample(method string, c StageCase) (float64, error) {
	r.turn++
	host := r.pages[c.Pages][:c.Bytes]
	memory, device := ferry.Memory[byte](ferry.Plain(host)), ferry.Memory[byte](r.device.Range(0, c.Bytes))
	if method != "" {
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
	err = r.copy(dst, src)
	took := time.Since(begin)
	if c.Direction == "in" {
		clear(host)
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
