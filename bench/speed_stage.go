package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
)

// StageSpeed is what ordinary memory costs to copy to the device and back: by Ferry
// and by its peers, in turns.
type StageSpeed struct {
	Schema  string            `json:"schema"` // ferry.speed/1
	Machine map[string]string `json:"machine"`
	Results []StageResult     `json:"results"`
	Table   []StageRow        `json:"table"`
}

// StageResult is one ratio of Ferry to a peer.
type StageResult struct {
	Target int     `json:"target"`
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Ferry  float64 `json:"ferry"`
	Peer   string  `json:"peer_name"`
	Value  float64 `json:"peer"`
	Ratio  float64 `json:"ratio"`
	Goal   float64 `json:"goal"` // 0 where none is set
	Met    bool    `json:"met"`
}

// StageRow is one size, direction and page size: medians in nanoseconds by method.
type StageRow struct {
	Direction string             `json:"direction"` // "in": to the device; "out"
	Pages     string             `json:"pages"`     // "4k" or "huge"
	Bytes     int                `json:"bytes"`
	Samples   int                `json:"samples"`
	Ns        map[string]float64 `json:"ns"`
}

// StageOptions say what to measure.
type StageOptions struct {
	Sizes   []int
	Samples int      // of each size up to 64 MiB; larger ones have a third
	Peers   []string // commands that speak the protocol of bench/peer/stage.cu
	Memory  func(bytes int, huge bool) ([]byte, error)
}

// stagePeer is a process that takes requests.
type stagePeer struct {
	cmd     *exec.Cmd
	in      *bufio.Writer
	out     *bufio.Scanner
	methods []string
}

// startPeer starts a peer and reads its methods.
func startPeer(command string) (*stagePeer, error) {
	words := strings.Fields(command)
	p := &stagePeer{cmd: exec.Command(words[0], words[1:]...)}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = bufio.NewWriter(in), bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if !p.out.Scan() {
		return nil, fmt.Errorf("peer %q ended: %w", command, p.cmd.Wait())
	}
	p.methods = strings.Fields(p.out.Text())
	return p, nil
}

// measure has the peer copy once.
func (p *stagePeer) measure(method, direction, pages string, n int) (float64, error) {
	fmt.Fprintf(p.in, "%s %s %s %d\n", method, direction, pages, n)
	if err := p.in.Flush(); err != nil {
		return 0, err
	}
	if !p.out.Scan() {
		return 0, errors.New("the peer ended")
	}
	first, why, _ := strings.Cut(p.out.Text(), " ")
	ns, err := strconv.ParseFloat(first, 64)
	if err != nil || ns <= 0 {
		return 0, fmt.Errorf("peer's %s %s of %d bytes: %s %s", method, direction, n, first, why)
	}
	return ns, nil
}

// stageRun measures Ferry's own copies.
type stageRun struct {
	s      *ferry.Stream
	device *ferry.Device[byte]
	locked *ferry.Host[byte]
	pages  map[string][]byte
	turn   uint64
}

// measure copies once, of fresh bytes to poisoned ones, and checks them.
func (r *stageRun) measure(method, direction, pages string, n int) (float64, error) {
	r.turn++
	memory := ferry.Memory[byte](ferry.Plain(r.pages[pages][:n]))
	bytes := r.pages[pages][:n]
	if method == "page-locked" {
		memory, bytes = r.locked.Range(0, n), r.locked.Range(0, n).Slice()
	}
	device := r.device.Range(0, n)
	scatter(bytes, r.turn)
	dst, src := ferry.Memory[byte](device), memory
	if direction == "out" {
		if err := ferry.Copy(r.s, dst, src); err != nil {
			return 0, err
		}
		dst, src = src, dst
	}
	if err := errors.Join(r.s.Wait(context.Background()), r.poison(direction, device, bytes)); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := errors.Join(ferry.Copy(r.s, dst, src), r.s.Wait(context.Background()))
	took := time.Since(begin)
	if err == nil && direction == "in" {
		clear(bytes)
		err = errors.Join(ferry.Copy(r.s, memory, ferry.Memory[byte](device)), r.s.Wait(context.Background()))
	}
	if err == nil && !scattered(bytes, r.turn) {
		err = fmt.Errorf("%s %s: of %d bytes some differ", method, direction, n)
	}
	return float64(took), err
}

// poison overwrites the destination.
func (r *stageRun) poison(direction string, device *ferry.Device[byte], bytes []byte) error {
	if direction == "in" {
		return errors.Join(ferry.Fill(r.s, device, byte(0xee)), r.s.Wait(context.Background()))
	}
	for i := range bytes {
		bytes[i] = 0xee
	}
	return nil
}

// scatter writes bytes that no other turn has.
func scatter(p []byte, turn uint64) {
	x := turn*0x9e3779b97f4a7c15 | 1
	for i := range p {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		p[i] = byte(x)
	}
}

// scattered says whether they are as scatter wrote them.
func scattered(p []byte, turn uint64) bool {
	x := turn*0x9e3779b97f4a7c15 | 1
	for i := range p {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		if p[i] != byte(x) {
			return false
		}
	}
	return true
}

// measurer measures one copy.
type measurer func(method, direction, pages string, n int) (float64, error)

// MeasureStage measures on a device.
func MeasureStage(g *ferry.GPU, o StageOptions) (*StageSpeed, error) {
	most := 0
	for _, n := range o.Sizes {
		most = max(most, n)
	}
	r, err := newStageRun(g, most, o)
	if err != nil {
		return nil, err
	}
	by := map[string]measurer{"ferry": r.measure, "page-locked": r.measure}
	order := []string{"ferry", "page-locked"}
	for _, command := range o.Peers {
		p, err := startPeer(command)
		if err != nil {
			return nil, err
		}
		defer p.cmd.Process.Kill()
		for _, m := range p.methods {
			by[m] = p.measure
			order = append(order, m)
		}
	}
	out := &StageSpeed{Schema: "ferry.speed/1", Machine: map[string]string{"device": g.Name()}}
	for _, n := range o.Sizes {
		for _, pages := range []string{"4k", "huge"} {
			for _, direction := range []string{"in", "out"} {
				row, err := stageRow(by, order, direction, pages, n, o.Samples)
				if err != nil {
					return nil, err
				}
				out.Table = append(out.Table, row)
				out.Results = append(out.Results, row.results()...)
			}
		}
	}
	return out, errors.Join(r.device.Close(), r.locked.Close(), r.s.Close())
}

// newStageRun takes the memory.
func newStageRun(g *ferry.GPU, most int, o StageOptions) (*stageRun, error) {
	r := &stageRun{pages: map[string][]byte{}}
	var err error
	for name, huge := range map[string]bool{"4k": false, "huge": true} {
		if r.pages[name], err = o.Memory(most, huge); err != nil {
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

// stageRow measures one size by all methods in turns. The first turn is not counted.
func stageRow(by map[string]measurer, order []string, direction, pages string, n, samples int) (StageRow, error) {
	if n > 64<<20 {
		samples = max(9, samples/3)
	}
	all := map[string][]float64{}
	for turn := range samples + 1 {
		for i := range order {
			m := order[(i+turn)%len(order)]
			ns, err := by[m](m, direction, pages, n)
			if err != nil {
				return StageRow{}, err
			}
			if turn > 0 {
				all[m] = append(all[m], ns)
			}
		}
	}
	row := StageRow{Direction: direction, Pages: pages, Bytes: n, Samples: samples, Ns: map[string]float64{}}
	for m, v := range all {
		row.Ns[m] = median(v)
	}
	return row, nil
}

// results are the row's ratios of speed, with the goals that are set: 0.95 of
// page-locked memory, 5 and 3 times cuMemcpy from 256 MiB on, never less than it.
func (row StageRow) results() []StageResult {
	var all []StageResult
	large := row.Bytes >= 256<<20
	for _, m := range []string{"page-locked", "cuMemcpy", "threads", "torch", "cupy"} {
		peer, ok := row.Ns[m]
		if !ok {
			continue
		}
		goal := 0.0
		switch {
		case m == "page-locked" && large:
			goal = 0.95
		case m == "cuMemcpy" && large && row.Direction == "in":
			goal = 5
		case m == "cuMemcpy" && large:
			goal = 3
		case m == "cuMemcpy":
			goal = 1
		}
		r := StageResult{Target: 2, What: fmt.Sprintf("plain slice %s, %d bytes, %s pages", row.Direction, row.Bytes, row.Pages), Unit: "GB/s",
			Ferry: float64(row.Bytes) / row.Ns["ferry"], Peer: m, Value: float64(row.Bytes) / peer, Goal: goal}
		r.Ratio = r.Ferry / r.Value
		r.Met = goal == 0 || r.Ratio >= goal
		all = append(all, r)
	}
	return all
}

// JSON is the report as a document.
func (s *StageSpeed) JSON() ([]byte, error) { return json.MarshalIndent(s, "", " ") }
