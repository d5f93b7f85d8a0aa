package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry"
)

// requests are what servers move for one request, in plain slices.
var requests = []struct {
	name  string
	bytes int
}{{"an image", 600 << 10}, {"a frame", 3 << 20}, {"a batch", 16 << 20}}

// The vectors of a request of tokens. They have gaps of their own size.
const (
	tokens     = 50
	tokenBytes = 4 << 10
)

// SpeedRequests measures copies of plain slices that are as large as the requests of servers, and compares them with
// page-locked memory, with cuMemcpy called by this process and by the peer internal/measure/bench/peer/stage.cu, and
// with the peer's ring.
func SpeedRequests(g *ferry.GPU, samples int, peers []Peer) (results []SpeedResult, err error) {
	var undo closers
	defer func() { err = errors.Join(err, undo.close()) }()
	x, err := newTokenRun(g, &undo)
	if err != nil {
		return nil, err
	}
	if results, err = runAll([]contest{x.contest()}, samples); err != nil {
		return results, err
	}
	more, err := runWays(g, requests[len(requests)-1].bytes, 0, samples, peers, func(ways []way) (all []contest) {
		ways = slices.DeleteFunc(ways, func(w way) bool {
			return w.peer && w.name != driverInC && w.name != ringInC
		})
		for _, r := range requests {
			for _, in := range []bool{true, false} {
				row := figure{stageTarget, fmt.Sprintf("%s of %s, plain slice %s", r.name, sizeText(r.bytes), direction(in)), r.bytes, 0}
				all = append(all, StageCase{Bytes: r.bytes, In: in}.among(ways, contest{rows: []figure{row}, repeats: sizesRepeats(g, r.bytes), goal: requestGoal(in)}))
			}
		}
		return all
	})
	return append(results, more...), err
}

// requestGoal returns the goals of a request in one direction.
func requestGoal(in bool) func(figure, string) float64 {
	return func(r figure, peer string) float64 {
		switch {
		case peer == driverInC:
			return 1
		case peer == ringInC && r.bytes < requests[len(requests)-1].bytes:
			return 0.9
		case peer == ringInC:
			return 0.95
		case peer == locked && !in:
			return 0.85
		}
		return 0
	}
}

// tokenRun copies the vectors of a request of tokens to the device.
type tokenRun struct {
	g            *ferry.GPU
	s            *ferry.Stream
	device       *ferry.Device[byte]
	locked       *ferry.Host[byte]
	pageable     []byte
	fromPageable []ferry.Pair[byte]
	fromLocked   []ferry.Pair[byte]
	turn         uint64
}

func newTokenRun(g *ferry.GPU, undo *closers) (x *tokenRun, err error) {
	const all = 2 * tokens * tokenBytes
	x = &tokenRun{g: g}
	if x.pageable, err = allocPageable(all, false, undo); err != nil {
		return nil, err
	}
	if x.s, err = ferry.NewStream(g, nil); undo.add(err, x.s.Close) != nil {
		return nil, err
	}
	if x.device, err = ferry.Alloc[byte](g, all); undo.add(err, x.device.Close) != nil {
		return nil, err
	}
	if x.locked, err = ferry.AllocHost[byte](g, all, nil); undo.add(err, x.locked.Close) != nil {
		return nil, err
	}
	for from := 0; from < all; from += 2 * tokenBytes {
		to := from + tokenBytes
		x.fromPageable = append(x.fromPageable, ferry.Pair[byte]{Dst: x.device.Range(from, to), Src: ferry.Pageable(x.pageable[from:to])})
		x.fromLocked = append(x.fromLocked, ferry.Pair[byte]{Dst: x.device.Range(from, to), Src: x.locked.Range(from, to)})
	}
	return x, nil
}

func (x *tokenRun) contest() contest {
	row := figure{stageTarget, fmt.Sprintf("%d tokens of %s, plain slices in by CopyAll", tokens, sizeText(tokenBytes)), tokens * tokenBytes, 0}
	each := func(copy func() error) func() ([]float64, error) {
		return func() ([]float64, error) { return x.sample(copy) }
	}
	return contest{rows: []figure{row}, repeats: sizesRepeats(x.g, row.bytes), entrants: []entrant{
		{"", each(func() error { return ferry.CopyAll(x.s, x.fromPageable) })},
		{locked, each(func() error { return ferry.CopyAll(x.s, x.fromLocked) })},
		{driverHere, each(x.byDriver)},
	}, goal: func(_ figure, peer string) float64 {
		if peer == driverHere {
			return 1
		}
		return 0
	}}
}

// byDriver makes the copies as a program without Ferry does.
func (x *tokenRun) byDriver() error {
	for from := 0; from < len(x.pageable); from += 2 * tokenBytes {
		if err := copyIn(x.g, x.device.Range(from, from+tokenBytes), x.pageable[from:from+tokenBytes]); err != nil {
			return err
		}
	}
	return nil
}

// sample times a way to copy, and checks what arrived.
func (x *tokenRun) sample(copy func() error) ([]float64, error) {
	x.turn++
	writePattern(x.pageable, x.turn)
	writePattern(x.locked.Slice(), x.turn)
	err := errors.Join(ferry.Fill(x.s, x.device, poisoned), x.s.Wait(context.Background()))
	begin := x.g.Now()
	err = errors.Join(err, copy(), x.s.Wait(context.Background()))
	took := x.g.Now() - begin
	got := make([]byte, len(x.pageable))
	if err = errors.Join(err, ferry.Copy(x.s, ferry.Pageable(got), x.device), x.s.Wait(context.Background())); err != nil {
		return nil, err
	}
	for from := 0; from < len(got); from += 2 * tokenBytes {
		if to := from + tokenBytes; string(got[from:to]) != string(x.pageable[from:to]) {
			return nil, fmt.Errorf("%w: the token at byte %d", errDiffer, from)
		}
	}
	return []float64{float64(took)}, nil
}
