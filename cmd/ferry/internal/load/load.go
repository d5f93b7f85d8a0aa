package load

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
)

// Job is what is loaded.
type Job struct {
	Files   []string
	Tensors []string // names and patterns; none means all
	To      checkpoint.DType
	Verify  bool
	// Progress, if not nil, is called with what is done of the step that is in progress.
	Progress func(step string, done, total int64)
}

func (j *Job) options() *checkpoint.Options {
	return &checkpoint.Options{Tensors: j.Tensors, To: j.To, Progress: j.progress("loading")}
}

// progress returns the function that reports a step, or nil.
func (j *Job) progress(step string) func(done, total int64) {
	if j.Progress == nil {
		return nil
	}
	return func(done, total int64) { j.Progress(step, done, total) }
}

// Run loads tensors onto the device of g, and frees them.
func Run(ctx context.Context, g *ferry.GPU, j Job) (r *Report, err error) {
	m, err := newMeter(g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	r = &Report{Schema: Schema, Device: g.String(), Load: &Load{Predicted: g.Emulated()}}
	disk, cpu, err := r.load(ctx, m, j)
	if err != nil {
		return nil, err
	}
	return r, r.explain(m, disk, cpu)
}

// load loads, measures and verifies. It returns what counters of the system say.
func (r *Report) load(ctx context.Context, m *meter, j Job) (disk *int64, cpu int64, err error) {
	s, err := ferry.NewStream(m.gpu, nil)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := m.mark(); err != nil {
		return nil, 0, err
	}
	before, began := resourcesNow(), m.gpu.Now()
	c, err := checkpoint.Open(j.Files...)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	l, err := checkpoint.Load(ctx, s, c, j.options())
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := s.Wait(ctx); err != nil {
		return nil, 0, err
	}
	r.Load.Ns = int64(m.gpu.Now() - began)
	after := resourcesNow()
	ring, err := m.gpu.Staging().Stats()
	if err != nil {
		return nil, 0, err
	}
	r.Load.Pinned = int64(ring.MostLocked)
	r.describe(c, j)
	r.list(l)
	if after.known {
		n := after.disk - before.disk
		disk = &n
	}
	if err = m.mark(); err == nil && j.Verify {
		err = r.verify(ctx, s, l, j)
	}
	return disk, int64(after.cpu - before.cpu), err
}

// describe fills in what was asked for.
func (r *Report) describe(c *checkpoint.Checkpoint, j Job) {
	r.Files, r.Of = files(c, j.Files), len(c.Tensors())
	if j.To != checkpoint.NoDType {
		r.To = j.To.String()
	}
}

// list fills in what was loaded.
func (r *Report) list(l *checkpoint.Loaded) {
	tensors := l.Tensors()
	r.Tensors, r.Memory = len(tensors), l.Bytes()
	for _, t := range tensors {
		r.Bytes += t.Bytes
		name, as := t.DType.String(), t.As.String()
		i := slices.IndexFunc(r.Types, func(x Type) bool { return x.Name == name && x.As == as })
		if i < 0 {
			i = len(r.Types)
			r.Types = append(r.Types, Type{Name: name, As: as})
		}
		r.Types[i].Tensors++
		r.Types[i].Bytes += t.Bytes
	}
}

// files returns the files that have tensors, as they were opened. Without tensors it returns the names
// that were given.
func files(c *checkpoint.Checkpoint, given []string) (all []string) {
	for _, t := range c.Tensors() {
		if len(all) == 0 || all[len(all)-1] != t.File {
			all = append(all, t.File)
		}
	}
	if len(all) == 0 {
		return given
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// explain fills in where the time went, and what bounded the load.
func (r *Report) explain(m *meter, disk *int64, cpu int64) error {
	p, known, err := m.parts()
	if err != nil || !known {
		return err
	}
	p.Disk, p.CPU = disk, cpu
	l := r.Load
	l.Parts = p
	l.Bound, l.Why = p.judge(r.Bytes, l.Predicted)
	return nil
}

// verify compares the device's memory with the files.
func (r *Report) verify(ctx context.Context, s *ferry.Stream, l *checkpoint.Loaded, j Job) error {
	began := time.Now()
	if err := checkpoint.Verify(ctx, s, l, j.progress("verifying")); err != nil {
		return err
	}
	r.Verified = &Verification{r.Tensors, r.Bytes, time.Since(began).Nanoseconds()}
	return nil
}
