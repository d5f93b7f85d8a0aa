package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
)

// The ratios to reach, on an H200.
const (
	linkGoal     = 0.995
	prefetchGoal = 0.98
)

// linkContests returns contests of page-locked memory with the copy engines, target 1.
func linkContests(r *rig, n int) []contest {
	return []contest{
		r.against(func() ([]float64, error) { return r.sampleCopy(n) }, fmt.Sprint("copy ", n),
			figure{1, fmt.Sprintf("page-locked to device, %s", sizeText(n)), n, linkGoal},
			figure{1, fmt.Sprintf("device to page-locked, %s", sizeText(n)), n, linkGoal}),
		r.against(func() ([]float64, error) { return r.sampleBoth(n) }, fmt.Sprint("both ", n),
			figure{1, fmt.Sprintf("both at once, each way, %s", sizeText(n)), n, linkGoal}),
	}
}

// sampleCopy copies in, then out.
func (r *rig) sampleCopy(n int) ([]float64, error) {
	a, b, d := r.a.Range(0, n), r.b.Range(0, n), r.d.Range(0, n)
	if err := r.fresh(n); err != nil {
		return nil, err
	}
	in, err := r.timed(func() error { return errors.Join(ferry.Copy(r.s, d, a), r.s.Wait(context.Background())) })
	if err != nil {
		return nil, err
	}
	out, err := r.timed(func() error { return errors.Join(ferry.Copy(r.s, b, d), r.s.Wait(context.Background())) })
	return []float64{in, out}, errors.Join(err, r.check(n))
}

// sampleBoth copies in and out at once.
func (r *rig) sampleBoth(n int) ([]float64, error) {
	a, b, d, e := r.a.Range(0, n), r.b.Range(0, n), r.d.Range(0, n), r.e.Range(0, n)
	if err := r.fresh(n); err != nil {
		return nil, err
	}
	took, err := r.timed(func() error { return errors.Join(ferry.Copy(r.s, d, a), ferry.Copy(r.t, b, e), r.wait()) })
	return []float64{took}, errors.Join(err, r.check(n), r.checkDevice(r.d, n))
}

// kernelContests returns contests of kernels that access host memory over the link,
// target 5.
func kernelContests(r *rig, n int) []contest {
	half := n / 2
	return []contest{
		r.against(func() ([]float64, error) { return r.sampleKernelRead(n) }, fmt.Sprint("read ", n),
			figure{5, fmt.Sprintf("kernel copy reads host memory, %s", sizeText(n)), n, linkGoal}),
		r.against(func() ([]float64, error) { return r.sampleKernelWrite(n) }, fmt.Sprint("write ", n),
			figure{5, fmt.Sprintf("kernel copy writes host memory, %s", sizeText(n)), n, linkGoal}),
		r.against(func() ([]float64, error) { return r.sampleSum(r.d.Range(0, half), half) }, fmt.Sprint("read ", n),
			figure{5, fmt.Sprintf("vector_add reads host memory, %s; beside a copy", sizeText(n)), n, linkGoal}),
		r.against(func() ([]float64, error) { return r.sampleSum(r.b.Range(0, half), half) }, fmt.Sprint("sum ", n),
			figure{5, fmt.Sprintf("vector_add all on host memory, %s in and half of it out", sizeText(n)), n, linkGoal}),
	}
}

// sampleLaunch times a kernel that moves n bytes, 16 per thread.
func (r *rig) sampleLaunch(k *ferry.Kernel, n int, args ...any) ([]float64, error) {
	config := r.g.GridStride(n / 16)
	took, err := r.timed(func() error {
		return errors.Join(r.s.Launch(k, config, args...), r.s.Wait(context.Background()))
	})
	return []float64{took}, err
}

func (r *rig) sampleKernelRead(n int) ([]float64, error) {
	if err := r.fresh(n); err != nil {
		return nil, err
	}
	figures, err := r.sampleLaunch(r.copy, n, r.d, r.a, uint64(n))
	return figures, errors.Join(err, r.checkDevice(r.d, n))
}

func (r *rig) sampleKernelWrite(n int) ([]float64, error) {
	if err := r.fresh(n); err != nil {
		return nil, err
	}
	figures, err := r.sampleLaunch(r.copy, n, r.b, r.e, uint64(n))
	return figures, errors.Join(err, r.check(n))
}

// sampleSum adds two vectors, which are the halves of 2*half bytes of a, into half bytes of
// b or d.
func (r *rig) sampleSum(to ferry.Memory[byte], half int) ([]float64, error) {
	if err := r.fresh(2 * half); err != nil {
		return nil, err
	}
	figures, err := r.sampleLaunch(r.add, half, r.a.Range(0, half), r.a.Range(half, 2*half), to, uint64(half/4))
	if d, ok := to.(*ferry.Device[byte]); ok {
		err = errors.Join(err, ferry.Copy(r.s, r.b.Range(0, half), d))
	}
	return figures, errors.Join(err, r.wait(), r.checkSum(half))
}

// checkSum checks the sums in b.
func (r *rig) checkSum(half int) error {
	a, b := r.a.ReadSlice(), r.b.ReadSlice()
	return firstWrong(half/4, func(first, end int) int {
		for first < end && floatAt(b, 4*first) == floatAt(a, 4*first)+floatAt(a, half+4*first) {
			first++
		}
		return first
	})
}
