package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
)

// rig has the objects for Ferry's samples, and the peer of internal/measure/bench/peer/link.cu,
// which has the same objects.
type rig struct {
	g    *ferry.GPU
	s, t *ferry.Stream
	a, b *ferry.Host[byte]   // source and destination on the host
	d, e *ferry.Device[byte] // destination and source on the device

	copy, add, increment *ferry.Kernel

	peer *running // nil if it is missing
	turn uint32   // counts samples, so that each has new data
	undo closers
}

const (
	poisoned  = byte(0xee)
	pageBytes = 4096
)

// newRig allocates four buffers of size bytes. The caller must close the rig also if there
// is an error.
func newRig(g *ferry.GPU, size int) (*rig, error) {
	r := &rig{g: g}
	return r, errors.Join(r.openStreams(), r.openMemory(size), r.openKernels())
}

func (r *rig) openStreams() (err error) {
	for _, s := range []**ferry.Stream{&r.s, &r.t} {
		if *s, err = ferry.NewStream(r.g, &ferry.StreamOptions{NonBlocking: true}); r.undo.add(err, (*s).Close) != nil {
			return err
		}
	}
	return nil
}

func (r *rig) openMemory(size int) (err error) {
	for _, h := range []**ferry.Host[byte]{&r.a, &r.b} {
		if *h, err = ferry.AllocHost[byte](r.g, size, &ferry.HostOptions{Mapped: true}); r.undo.add(err, (*h).Close) != nil {
			return err
		}
	}
	for _, d := range []**ferry.Device[byte]{&r.d, &r.e} {
		if *d, err = ferry.Alloc[byte](r.g, size); r.undo.add(err, (*d).Close) != nil {
			return err
		}
	}
	writeSource(r.a.Slice())
	return nil
}

func (r *rig) openKernels() error {
	m, err := ferry.Load(r.g, []byte(kernels.PTX), nil)
	if r.undo.add(err, m.Close) != nil {
		return err
	}
	for name, k := range map[string]**ferry.Kernel{"copy": &r.copy, "vector_add": &r.add, "increment": &r.increment} {
		if *k, err = m.Kernel(name); err != nil {
			return err
		}
	}
	return nil
}

// against returns a contest of Ferry with the peer, if there is one. line is the request
// to the peer.
func (r *rig) against(own func() ([]float64, error), line string, rows ...figure) contest {
	return r.againstAll(own, []method{{"C", line}}, rows...)
}

// method is one method of the peer, with its request.
type method struct{ name, line string }

// againstAll returns a contest of Ferry with several methods of the peer.
func (r *rig) againstAll(own func() ([]float64, error), methods []method, rows ...figure) contest {
	c := contest{rows: rows, entrants: []entrant{{"", own}}}
	if r.peer == nil {
		return c
	}
	for _, m := range methods {
		c.entrants = append(c.entrants, r.peer.entrant(m.name, m.line))
	}
	return c
}

// word returns the bits of a float with a small integer, so that sums are exact.
func word(i int, turn uint32) uint32 {
	return math.Float32bits(float32((uint32(i)*2654435761 + turn*0x85ebca6b) >> 9))
}

// writeSource writes all words of a source.
func writeSource(p []byte) {
	for i := range len(p) / 4 {
		binary.LittleEndian.PutUint32(p[4*i:], word(i, 0))
	}
}

// stamp writes a new word into each page. It does not write the whole source, which would
// then be in the CPU's caches: the link reads from there at another rate.
func stamp(p []byte, turn uint32) {
	for i := 0; i+4 <= len(p); i += pageBytes {
		binary.LittleEndian.PutUint32(p[i:], word(i/4, turn))
	}
}

// fresh stamps n bytes of a, copies them to e and poisons b and d.
func (r *rig) fresh(n int) error {
	r.turn++
	a := r.a.Range(0, n)
	stamp(a.Slice(), r.turn)
	return errors.Join(
		ferry.Copy(r.s, r.e.Range(0, n), a),
		ferry.Fill(r.s, r.b.Range(0, n), poisoned),
		ferry.Fill(r.s, r.d.Range(0, n), poisoned),
		r.wait())
}

// wait waits for both streams.
func (r *rig) wait() error {
	return errors.Join(r.s.Wait(context.Background()), r.t.Wait(context.Background()))
}

// timed returns the nanoseconds that f takes.
func (r *rig) timed(f func() error) (ns float64, err error) {
	begin := r.g.Now()
	err = f()
	return float64(r.g.Now() - begin), err
}

// check compares n bytes of b with a.
func (r *rig) check(n int) error { return same(r.b, r.a, n) }

// checkDevice copies n bytes of device memory to b and compares them with a.
func (r *rig) checkDevice(d *ferry.Device[byte], n int) error {
	b := r.b.Range(0, n)
	if err := errors.Join(ferry.Fill(r.s, b, poisoned), ferry.Copy(r.s, b, d.Range(0, n)), r.wait()); err != nil {
		return err
	}
	return r.check(n)
}

// errDiffer is in the error for data that was not copied correctly.
var errDiffer = errors.New("wrong data")

func same(got, want *ferry.Host[byte], n int) error {
	x, y := got.ReadSlice()[:n], want.ReadSlice()[:n]
	return firstWrong(n, func(first, end int) int {
		if bytes.Equal(x[first:end], y[first:end]) {
			return end
		}
		for x[first] == y[first] {
			first++
		}
		return first
	})
}

// firstWrong checks n elements in parts and returns an error with the first wrong element.
// wrong returns the first wrong element of a part, or its end.
func firstWrong(n int, wrong func(first, end int) int) error {
	var mu sync.Mutex
	least := n
	split(n, func(first, end int) {
		if i := wrong(first, end); i < end {
			mu.Lock()
			defer mu.Unlock()
			least = min(least, i)
		}
	})
	if least == n {
		return nil
	}
	return fmt.Errorf("%w: element %d of %d", errDiffer, least, n)
}

// floatAt returns the float at byte i.
func floatAt(p []byte, i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(p[i:])) }
