package serve

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cell is what [Run] measures.
type Cell struct {
	Kind       string // pinned, pageable or pool
	Bytes      int    // copied in and out by each request
	Goroutines int
	GC         bool // collects garbage all the time, in a heap of pointers
	Context    bool // waits with a context that can be cancelled
	SaveCPU    bool // with GPU.SetSaveCPU
}

// kinds are the kinds of memory.
var kinds = []string{"pinned", "pageable", "pool"}

// The limits of a cell.
const (
	leastBytes     = 16
	mostBytes      = 1 << 30
	mostGoroutines = 1 << 16
)

// Cells returns the cells that are compared: each kind at its sizes with 1 to 256 goroutines,
// and requests while garbage is collected.
func Cells() (cells []Cell) {
	for _, k := range []struct {
		kind  string
		sizes []int
	}{
		{"pinned", []int{4 << 10, 64 << 10, 1 << 20}},
		{"pageable", []int{64 << 10, 1 << 20}},
		{"pool", []int{4 << 10, 64 << 10}},
	} {
		for _, bytes := range k.sizes {
			for _, n := range []int{1, 4, 16, 64, 256} {
				cells = append(cells, Cell{Kind: k.kind, Bytes: bytes, Goroutines: n})
			}
		}
	}
	for _, n := range []int{16, 64} {
		cells = append(cells, Cell{Kind: "pinned", Bytes: 4 << 10, Goroutines: n, GC: true})
	}
	return cells
}

// ParseCell parses KIND,BYTES,GOROUTINES, which can be followed by ,gc, ,context and ,save.
func ParseCell(text string) (c Cell, err error) {
	words := strings.Split(text, ",")
	if len(words) < 3 {
		return c, fmt.Errorf("cell %q: it must be KIND,BYTES,GOROUTINES", text)
	}
	c.Kind = words[0]
	var wrong, wrongToo error
	c.Bytes, wrong = strconv.Atoi(words[1])
	c.Goroutines, wrongToo = strconv.Atoi(words[2])
	for _, w := range words[3:] {
		switch w {
		case "gc":
			c.GC = true
		case "context":
			c.Context = true
		case "save":
			c.SaveCPU = true
		default:
			return c, fmt.Errorf("cell %q: there is no variant %q: use gc, context or save", text, w)
		}
	}
	if err := errors.Join(wrong, wrongToo, c.check()); err != nil {
		return c, fmt.Errorf("cell %q: %w", text, err)
	}
	return c, nil
}

// check checks the kind and the numbers.
func (c Cell) check() error {
	switch {
	case !slices.Contains(kinds, c.Kind):
		return fmt.Errorf("there is no kind %q: the kinds are %s", c.Kind, strings.Join(kinds, ", "))
	case c.Bytes < leastBytes || c.Bytes > mostBytes || c.Bytes%leastBytes != 0:
		return fmt.Errorf("%d bytes: must be a multiple of %d, up to %d", c.Bytes, leastBytes, mostBytes)
	case c.Goroutines < 1 || c.Goroutines > mostGoroutines:
		return fmt.Errorf("%d goroutines: must be 1 to %d", c.Goroutines, mostGoroutines)
	}
	return nil
}

// String returns the cell in the form that [ParseCell] takes.
func (c Cell) String() string {
	text := fmt.Sprintf("%s,%d,%d", c.Kind, c.Bytes, c.Goroutines)
	if c.GC {
		text += ",gc"
	}
	if c.Context {
		text += ",context"
	}
	if c.SaveCPU {
		text += ",save"
	}
	return text
}

// Figures are the results of a cell. Latencies are in microseconds.
type Figures struct {
	Program    string  `json:"program"` // ferry or c
	Cell       string  `json:"cell"`
	Seconds    float64 `json:"seconds"`
	Requests   uint64  `json:"requests"` // that ended within Seconds
	PerSecond  float64 `json:"per_second"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p999_us"`
	Longest    float64 `json:"longest_us"`
	Fewest     uint64  `json:"fewest"`         // requests of a goroutine
	Most       uint64  `json:"most"`           // requests of a goroutine
	CPU        float64 `json:"cpu_per_second"` // CPU seconds of the process a second; 0 if not known
	Allocs     float64 `json:"allocs_per_request"`
	GCs        int     `json:"gcs"`     // collections of garbage, with one that was under way at the end
	Threads    int     `json:"threads"` // of the operating system, at the end; 0 if not known
	Device     string  `json:"device"`
	Driver     string  `json:"driver,omitempty"`
	Go         string  `json:"go,omitempty"`
	Commit     string  `json:"commit,omitempty"`
	Processors int     `json:"processors"`
}

// micros returns a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d) / 1e3 }

// Peer reports whether the peer can measure the cell, too: it has neither pools nor garbage
// to collect.
func (c Cell) Peer() bool { return c.Kind != "pool" && !c.GC && !c.Context && !c.SaveCPU }
