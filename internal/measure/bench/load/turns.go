package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// runner takes samples.
type runner struct {
	programs map[string]*program
	files    *files
	rounds   int
	end      time.Time // no round begins after it
	lines    io.Writer // a line of JSON for each sample, as they come
	log      io.Writer
	data     []sample
}

// sample is one answer, as it is written.
type sample struct {
	Row     string             `json:"row"`
	Entrant string             `json:"entrant"`
	Round   int                `json:"round"` // 0 is the warm-up, which does not count
	NS      int64              `json:"ns,omitempty"`
	Bytes   int64              `json:"bytes,omitempty"`
	Figures map[string]float64 `json:"figures,omitempty"`
	Error   string             `json:"error,omitempty"`
}

// run measures a row: in each round each entrant once, in a random order. An entrant that fails
// takes no part in later rounds.
func (m *runner) run(r row) error {
	f := r.file(m.files)
	if f == nil {
		return nil
	}
	left := slices.Clone(r.entrants)
	for round := 0; round <= m.rounds && time.Now().Before(m.end); round++ {
		rand.Shuffle(len(left), func(i, k int) { left[i], left[k] = left[k], left[i] })
		for _, e := range slices.Clone(left) {
			s := m.sample(r, e, f, round)
			if s.Error != "" {
				fmt.Fprintf(m.log, "%s: %s: %s\n", r.name, e.name, s.Error)
				left = slices.DeleteFunc(left, func(x entrant) bool { return x == e })
			}
			m.data = append(m.data, s)
			if err := json.NewEncoder(m.lines).Encode(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// sample takes one sample. The first round compares every byte.
func (m *runner) sample(r row, e entrant, f *modelFile, round int) sample {
	s := sample{Row: r.name, Entrant: e.name, Round: round}
	p := m.programs[e.program]
	if p == nil {
		s.Error = "the program is missing"
		return s
	}
	if f == m.files.disk {
		if err := forget(f.path); err != nil {
			s.Error = err.Error()
			return s
		}
	}
	a, err := p.ask(request{e.method, r.gpus, round == 0, f.data, f.bytes, f.path})
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.NS, s.Bytes, s.Figures = a.time.Nanoseconds(), f.bytes, a.figures
	if moved := int64(a.figures[movedBytes]); moved > 0 {
		s.Bytes = moved
	}
	if r.gpus == toAll {
		s.Bytes *= 2
	}
	return s
}

// forget removes a file from the page cache.
func forget(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dropCache(f), f.Close())
}

// stop ends all programs.
func (m *runner) stop() (err error) {
	for _, p := range m.programs {
		err = errors.Join(err, p.stop())
	}
	return err
}
