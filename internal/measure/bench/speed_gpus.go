package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
)

// twoGPUs is a rig with a second GPU and its stream, device memory, source and
// destination.
type twoGPUs struct {
	*rig
	s2     *ferry.Stream
	d2     *ferry.Device[byte]
	a2, b2 *ferry.Host[byte]
}

// newTwoGPUs creates the objects of the second GPU. The rig closes them.
func newTwoGPUs(r *rig, second *ferry.GPU, size int) (*twoGPUs, error) {
	x := &twoGPUs{rig: r}
	var err error
	if x.s2, err = ferry.NewStream(second, &ferry.StreamOptions{NonBlocking: true}); r.undo.add(err, x.s2.Close) != nil {
		return nil, err
	}
	if x.d2, err = ferry.Alloc[byte](second, size); r.undo.add(err, x.d2.Close) != nil {
		return nil, err
	}
	for _, h := range []**ferry.Host[byte]{&x.a2, &x.b2} {
		if *h, err = ferry.AllocHost[byte](second, size, nil); r.undo.add(err, (*h).Close) != nil {
			return nil, err
		}
	}
	writeSource(x.a2.Slice())
	return x, errors.Join(r.g.EnablePeer(second), second.EnablePeer(r.g))
}

// contests returns contests of copies to and from two GPUs at once, by one goroutine, and
// of copies between them.
func (x *twoGPUs) contests(n int) []contest {
	two := func(what string) figure {
		return figure{1, fmt.Sprintf("%s, %s each", what, sizeText(n)), 2 * n, linkGoal}
	}
	return []contest{
		x.against(func() ([]float64, error) { return x.sampleIn(x.a2, n) }, fmt.Sprint("two_in ", n, " own"), two("page-locked to two GPUs at once")),
		x.against(func() ([]float64, error) { return x.sampleIn(x.a, n) }, fmt.Sprint("two_in ", n, " one"), two("one page-locked buffer to two GPUs at once")),
		x.against(func() ([]float64, error) { return x.sampleOut(n) }, fmt.Sprint("two_out ", n), two("two GPUs to page-locked at once")),
		x.against(func() ([]float64, error) { return x.samplePeer(n) }, fmt.Sprint("peer ", n),
			figure{1, fmt.Sprintf("GPU to GPU, access enabled, %s", sizeText(n)), n, linkGoal}),
	}
}

// freshSecond stamps a2 and poisons b2 and d2.
func (x *twoGPUs) freshSecond(n int) error {
	if err := x.fresh(n); err != nil {
		return err
	}
	stamp(x.a2.Range(0, n).Slice(), x.turn+1<<16)
	return errors.Join(ferry.Fill(x.s2, x.d2.Range(0, n), poisoned), x.poisonSecond(n))
}

// poisonSecond poisons b2.
func (x *twoGPUs) poisonSecond(n int) error {
	p := x.b2.Range(0, n).Slice()
	split(n, func(first, end int) {
		for i := first; i < end; i++ {
			p[i] = poisoned
		}
	})
	return x.s2.Wait(context.Background())
}

// waitAll waits for both GPUs.
func (x *twoGPUs) waitAll() error {
	return errors.Join(x.s.Wait(context.Background()), x.s2.Wait(context.Background()))
}

// checkSecond compares n bytes of the second GPU's memory with a source.
func (x *twoGPUs) checkSecond(want *ferry.Host[byte], n int) error {
	if err := errors.Join(x.poisonSecond(n), ferry.Copy(x.s2, x.b2.Range(0, n), x.d2.Range(0, n)), x.waitAll()); err != nil {
		return err
	}
	return same(x.b2, want, n)
}

// sampleIn copies to both GPUs, and to the second one from the given memory.
func (x *twoGPUs) sampleIn(from *ferry.Host[byte], n int) ([]float64, error) {
	if err := x.freshSecond(n); err != nil {
		return nil, err
	}
	d, a, d2, a2 := x.d.Range(0, n), x.a.Range(0, n), x.d2.Range(0, n), from.Range(0, n)
	took, err := x.timed(func() error { return errors.Join(ferry.Copy(x.s, d, a), ferry.Copy(x.s2, d2, a2), x.waitAll()) })
	return []float64{took}, errors.Join(err, x.checkDevice(x.d, n), x.checkSecond(from, n))
}

// sampleOut copies from both GPUs.
func (x *twoGPUs) sampleOut(n int) ([]float64, error) {
	if err := x.freshSecond(n); err != nil {
		return nil, err
	}
	b, e, b2, d2 := x.b.Range(0, n), x.e.Range(0, n), x.b2.Range(0, n), x.d2.Range(0, n)
	if err := errors.Join(ferry.Copy(x.s2, d2, x.a2.Range(0, n)), x.waitAll()); err != nil {
		return nil, err
	}
	took, err := x.timed(func() error { return errors.Join(ferry.Copy(x.s, b, e), ferry.Copy(x.s2, b2, d2), x.waitAll()) })
	return []float64{took}, errors.Join(err, x.check(n), same(x.b2, x.a2, n))
}

// samplePeer copies from the first GPU to the second.
func (x *twoGPUs) samplePeer(n int) ([]float64, error) {
	if err := x.freshSecond(n); err != nil {
		return nil, err
	}
	e, d2 := x.e.Range(0, n), x.d2.Range(0, n)
	took, err := x.timed(func() error { return errors.Join(ferry.Copy(x.s, d2, e), x.s.Wait(context.Background())) })
	return []float64{took}, errors.Join(err, x.checkSecond(x.a, n))
}
