package advise

import (
	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/workers"
)

// host is the memory of a step that the CPU uses. in and out have length 0 if the step has
// no such data.
type host struct {
	in, out ferry.Memory[float32]
	write   func() []float32 // returns the input for the CPU to write
	read    func() []float32 // returns the results for the CPU to read
}

// memory allocates host memory for a way.
func (l *lab) memory(w way, j *Job) (*host, error) {
	switch w.kind {
	case Pageable:
		return l.pageable(j), nil
	case Registered:
		if w.path == EachTime {
			return l.pageable(j), nil
		}
		return l.registered(j)
	case Managed:
		in, err := keep(l, func() (*ferry.Managed[float32], error) { return ferry.AllocManaged[float32](l.g, j.In/4, nil) })
		if err != nil {
			return nil, err
		}
		out, err := keep(l, func() (*ferry.Managed[float32], error) { return ferry.AllocManaged[float32](l.g, j.Out/4, nil) })
		return &host{in, out, in.Slice, out.ReadSlice}, err
	}
	in, err := l.pinned(j.In, &ferry.HostOptions{Mapped: w.inPlace(), WriteCombined: w.kind == WriteCombined})
	if err != nil {
		return nil, err
	}
	out, err := l.pinned(j.Out, &ferry.HostOptions{Mapped: w.outPlace()})
	return &host{in, out, in.Slice, out.ReadSlice}, err
}

func (l *lab) pinned(n int, o *ferry.HostOptions) (*ferry.Host[float32], error) {
	return keep(l, func() (*ferry.Host[float32], error) { return ferry.AllocHost[float32](l.g, n/4, o) })
}

func (l *lab) pageable(j *Job) *host {
	in, out := make([]float32, j.In/4), make([]float32, j.Out/4)
	return &host{ferry.Pageable(in), ferry.Pageable(out), func() []float32 { return in }, func() []float32 { return out }}
}

func (l *lab) registered(j *Job) (*host, error) {
	o := &ferry.RegisterOptions{Mapped: true}
	slices := l.pageable(j)
	fill(slices.write(), 0) // memory in use has pages
	fill(slices.read(), 0)
	in, err := keep(l, func() (*ferry.Host[float32], error) { return ferry.Register(l.g, slices.write(), o) })
	if err != nil {
		return nil, err
	}
	out, err := keep(l, func() (*ferry.Host[float32], error) { return ferry.Register(l.g, slices.read(), o) })
	return &host{in, out, in.Slice, out.ReadSlice}, err
}

// keep makes a buffer and lets close free it.
func keep[M interface{ Close() error }](l *lab, one func() (M, error)) (M, error) {
	m, err := one()
	if err == nil {
		l.keep(m.Close)
	}
	return m, err
}

// oneCore is how many words one core writes; more are divided among all cores.
const oneCore = 4 << 20

// fill writes words with one core or with all.
func fill(words []float32, v float32) {
	some := func(first, end int) {
		for i := range words[first:end] {
			words[first+i] = v
		}
	}
	if len(words) <= oneCore {
		some(0, len(words))
		return
	}
	workers.For(len(words), some)
}

// wordsPerPage is the number of words of a page of the host.
const wordsPerPage = 4096 / 4

// touch reads a word of each page, or all words.
func touch(words []float32, all bool) (sum float32) {
	step := wordsPerPage
	if all {
		step = 1
	}
	for i := 0; i < len(words); i += step {
		sum += words[i]
	}
	return sum
}
