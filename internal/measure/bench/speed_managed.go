package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// prefetching is managed memory that moves to the device and back.
type prefetching struct {
	r      *rig
	m      *ferry.Managed[float32]
	passed int // number of samples; each adds one to every element
}

// prefetchContest returns the contest of target 7.
func prefetchContest(r *rig, n int) (contest, error) {
	m, err := ferry.AllocManaged[float32](r.g, n/4, nil)
	if r.undo.add(err, m.Close) != nil {
		return contest{}, err
	}
	x := &prefetching{r: r, m: m}
	p := m.Slice()
	for i := range p {
		p[i] = float32(i & 0xffff)
	}
	return r.against(x.sample, fmt.Sprint("prefetch ", n),
		figure{7, fmt.Sprintf("managed memory prefetched to the device, %s", sizeText(n)), n, prefetchGoal},
		figure{7, fmt.Sprintf("managed memory prefetched to the host, %s", sizeText(n)), n, prefetchGoal}), nil
}

// sample moves the memory to the device, changes it there, and moves it back.
func (x *prefetching) sample() ([]float64, error) {
	in, err := x.move(true)
	if err != nil {
		return nil, err
	}
	if err := x.r.s.Launch(x.r.increment, x.r.g.GridStride(x.m.Len()/4), x.m, uint64(x.m.Len())); err != nil {
		return nil, err
	}
	if err := x.r.wait(); err != nil {
		return nil, err
	}
	out, err := x.move(false)
	x.passed++
	return []float64{in, out}, errors.Join(err, x.check())
}

func (x *prefetching) move(toDevice bool) (ns float64, err error) {
	to := cu.CPUDevice
	if toDevice {
		to = x.r.g.CUDevice()
	}
	return x.r.timed(func() error {
		return errors.Join(x.m.Prefetch(x.r.s, to), x.r.s.Wait(context.Background()))
	})
}

func (x *prefetching) check() error {
	p := x.m.ReadSlice()
	return firstWrong(len(p), func(first, end int) int {
		for first < end && p[first] == float32(first&0xffff+x.passed) {
			first++
		}
		return first
	})
}
