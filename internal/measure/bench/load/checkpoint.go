package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/ferrygpu/ferry/checkpoint"
)

// loadAll measures the load of all tensors.
func (s *server) loadAll(r request) (answer, []place, func() error, error) {
	return s.load(r, checkpoint.Options{})
}

// loadDirect measures the load past the page cache.
func (s *server) loadDirect(r request) (answer, []place, func() error, error) {
	return s.load(r, checkpoint.Options{Direct: checkpoint.DirectOn})
}

// loadF16 measures the load with conversion to f16.
func (s *server) loadF16(r request) (answer, []place, func() error, error) {
	a, places, free, err := s.load(r, checkpoint.Options{To: checkpoint.F16})
	for i := range places {
		places[i].f16 = true
	}
	return a, places, free, err
}

// toF16 makes f16 values of bf16 values, in place. All of these in f16's range are values of f16, but
// for its denormal ones, which are rounded to even.
func toF16(p []byte) {
	for ; len(p) > 1; p = p[2:] {
		x := binary.LittleEndian.Uint16(p)
		sign, exponent := x&0x8000, int(x>>7&0xff)-127
		out := uint16(exponent+15)<<10 | x&0x7f<<3
		switch {
		case x&0x7fff > 0x7f80:
			out = 0x7fff // NaN, as Ferry writes it
		case exponent > 15:
			out = 0x7c00
		case exponent < -14:
			out = uint16(math.RoundToEven(math.Abs(float64(math.Float32frombits(uint32(x)<<16))) * (1 << 24)))
		}
		binary.LittleEndian.PutUint16(p, sign|out)
	}
}

// loadFirst measures the load of the first tensor of 8 KiB, with the opening of the file.
func (s *server) loadFirst(r request) (answer, []place, func() error, error) {
	bytes := int64(0)
	a, places, free, err := s.load(r, checkpoint.Options{Select: func(t checkpoint.Info) bool {
		first := bytes == 0 && len(t.Shape) == 1
		if first {
			bytes = t.Bytes
		}
		return first
	}})
	if err == nil {
		a.figures[movedBytes] = float64(bytes)
	}
	return a, places, free, err
}

// load opens the file and loads it. With one half for each GPU there are two loads at once.
func (s *server) load(r request, o checkpoint.Options) (a answer, places []place, free func() error, err error) {
	began := time.Now()
	c, err := checkpoint.Open(r.path)
	if err != nil {
		return a, nil, nil, err
	}
	opened := time.Since(began)
	all := make([]*checkpoint.Loaded, len(s.gpus))
	free = func() (err error) {
		for _, l := range all {
			err = errors.Join(err, l.Close())
		}
		return errors.Join(err, c.Close())
	}
	err = s.onEach(r, o, func(i int, o checkpoint.Options) (err error) {
		all[i], err = checkpoint.Load(context.Background(), s.streams[i], c, &o)
		return errors.Join(err, s.streams[i].Wait(context.Background()))
	})
	if err != nil {
		return a, nil, nil, errors.Join(err, free())
	}
	took := time.Since(began)
	pinned, err := s.pinned()
	a = answer{took, map[string]float64{"open_us": micro(opened), "load_us": micro(took - opened), "pinned": pinned}}
	return a, s.places(all), free, err
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// onEach calls f for each load of a request, with its options.
func (s *server) onEach(r request, o checkpoint.Options, f func(i int, o checkpoint.Options) error) error {
	switch r.gpus {
	case toAll:
		o.Also = s.gpus[1:2]
		return f(0, o)
	case toOne:
		return f(0, o)
	}
	return s.onAll(r, func(i int, from, to int64) error {
		mine := o
		mine.Select = func(t checkpoint.Info) bool { return t.Offset-r.data >= from && t.Offset-r.data < to }
		return f(i, mine)
	})
}

// places returns where the tensors are, on all GPUs.
func (s *server) places(all []*checkpoint.Loaded) (places []place) {
	for _, l := range all {
		for _, g := range s.gpus {
			for _, t := range l.On(g).Tensors() {
				places = append(places, place{off: t.Offset, mem: t.Memory})
			}
		}
	}
	return places
}

// pinned returns the most that the rings of the GPUs had page-locked.
func (s *server) pinned() (total float64, err error) {
	for _, g := range s.gpus {
		x, err := g.Staging().Stats()
		if err != nil {
			return 0, err
		}
		total += float64(x.MostLocked)
	}
	return total, nil
}
