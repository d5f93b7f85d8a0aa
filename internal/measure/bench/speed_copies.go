package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ferrygpu/ferry"
)

// The sizes of a large copy, and of a small copy that is submitted while it runs.
const (
	largeCopyBytes = 256 << 20
	smallCopyBytes = 50 << 10
)

// copiesContests returns contests of many copies at once, and of a small copy during a
// large one.
func copiesContests(r *rig, size int) []contest {
	var all []contest
	for _, x := range []batchOfCopies{
		{r: r, in: true, count: 1024, each: 4 << 10},
		{r: r, in: true, count: 16, each: 64 << 10},
		{r: r, in: true, count: 64, each: 1 << 20},
	} {
		if 2*x.count*x.each > size {
			continue
		}
		all = append(all, x.contest())
		x.in = false
		all = append(all, x.contest())
	}
	large := min(largeCopyBytes, size/2)
	for _, in := range []bool{true, false} {
		all = append(all, r.against(func() ([]float64, error) { return r.sampleSmallDuringLarge(in, large, smallCopyBytes) },
			fmt.Sprint("small_during_large ", direction(in), " ", large, " ", smallCopyBytes),
			figure{0, fmt.Sprintf("copy %s, %s, while %s go the same way in another stream", direction(in), sizeText(smallCopyBytes), sizeText(large)), 0, 1}))
	}
	return all
}

// direction returns "in" for copies to the device, else "out".
func direction(in bool) string {
	if in {
		return "in"
	}
	return "out"
}

// batchOfCopies is many copies of equal size. The gaps between them have the same size.
type batchOfCopies struct {
	r           *rig
	in          bool
	count, each int
}

func (x batchOfCopies) contest() contest {
	line := func(how string) string {
		return fmt.Sprint("many ", direction(x.in), " ", how, " ", x.count, " ", x.each)
	}
	pairs := x.pairs()
	return x.r.againstAll(func() ([]float64, error) { return x.sample(pairs) },
		[]method{{"C, a loop", line("loop")}, {"C, cuMemcpyBatchAsync", line("batch")}},
		figure{0, fmt.Sprintf("CopyAll %s, %d of %s", direction(x.in), x.count, sizeText(x.each)), 0, togetherGoal})
}

func (x batchOfCopies) pairs() (pairs []ferry.Pair[byte]) {
	for i := range x.count {
		from, to := 2*i*x.each, (2*i+1)*x.each
		p := ferry.Pair[byte]{Dst: x.r.b.Range(from, to), Src: x.r.e.Range(from, to)}
		if x.in {
			p = ferry.Pair[byte]{Dst: x.r.d.Range(from, to), Src: x.r.a.Range(from, to)}
		}
		pairs = append(pairs, p)
	}
	return pairs
}

func (x batchOfCopies) sample(pairs []ferry.Pair[byte]) ([]float64, error) {
	r, all := x.r, 2*x.count*x.each
	if err := r.fresh(all); err != nil {
		return nil, err
	}
	took, err := r.timed(func() error {
		return errors.Join(ferry.CopyAll(r.s, pairs), r.s.Wait(context.Background()))
	})
	if x.in {
		err = errors.Join(err, ferry.Copy(r.s, r.b.Range(0, all), r.d.Range(0, all)), r.wait())
	}
	for i := 0; i < all; i += 2 * x.each {
		err = errors.Join(err, same(r.b.Range(i, i+x.each), r.a.Range(i, i+x.each), x.each))
	}
	return []float64{took}, err
}

// sampleSmallDuringLarge times a small copy from its submission to its end, while a large
// copy is in flight in another stream.
func (r *rig) sampleSmallDuringLarge(in bool, large, small int) ([]float64, error) {
	all := large + small
	if err := r.fresh(all); err != nil {
		return nil, err
	}
	var dst, src ferry.Memory[byte] = r.b, r.e
	if in {
		dst, src = r.d, r.a
	}
	to, from := rangeOf(dst, large, all), rangeOf(src, large, all)
	if err := ferry.Copy(r.s, rangeOf(dst, 0, large), rangeOf(src, 0, large)); err != nil {
		return nil, err
	}
	took, err := r.timed(func() error { return errors.Join(ferry.Copy(r.t, to, from), r.t.Wait(context.Background())) })
	if err = errors.Join(err, r.wait()); err != nil {
		return nil, err
	}
	if in {
		return []float64{took}, r.checkDevice(r.d, all)
	}
	return []float64{took}, r.check(all)
}

// rangeOf returns bytes i to j-1 of a buffer of a rig.
func rangeOf(m ferry.Memory[byte], i, j int) ferry.Memory[byte] {
	if h, ok := m.(*ferry.Host[byte]); ok {
		return h.Range(i, j)
	}
	return m.(*ferry.Device[byte]).Range(i, j)
}

const (
	submitters         = 64
	copiesPerSubmitter = 200
	submitterGoal      = 1 / 1.10
)

// submittersContest returns a contest of many goroutines that submit small copies, each to
// its own stream.
func submittersContest(r *rig, count, copies int) (contest, error) {
	x := submitting{r: r, copies: copies}
	for range count {
		s, err := ferry.NewStream(r.g, &ferry.StreamOptions{NonBlocking: true})
		if r.undo.add(err, s.Close) != nil {
			return contest{}, err
		}
		x.streams = append(x.streams, s)
	}
	return r.against(x.sample, fmt.Sprint("threads ", count, " ", copies),
		figure{6, fmt.Sprintf("copy in, %s, by each of %d goroutines at once, time for each copy", sizeText(callBytes), count), 0, submitterGoal}), nil
}

type submitting struct {
	r       *rig
	streams []*ferry.Stream
	copies  int
}

func (x submitting) sample() ([]float64, error) {
	r, all := x.r, len(x.streams)*callBytes
	if err := r.fresh(all); err != nil {
		return nil, err
	}
	start, failed := make(chan struct{}), make([]error, len(x.streams))
	var running sync.WaitGroup
	for i := range x.streams {
		running.Go(func() {
			a, d := r.a.Range(i*callBytes, (i+1)*callBytes), r.d.Range(i*callBytes, (i+1)*callBytes)
			<-start
			err := repeat(x.copies, func() error { return ferry.Copy(x.streams[i], d, a) })
			failed[i] = errors.Join(err, x.streams[i].Wait(context.Background()))
		})
	}
	took, err := r.timed(func() error {
		close(start)
		running.Wait()
		return errors.Join(failed...)
	})
	return []float64{took / float64(len(x.streams)*x.copies)}, errors.Join(err, r.checkDevice(r.d, all))
}
