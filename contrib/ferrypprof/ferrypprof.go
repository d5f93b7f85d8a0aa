// Package ferrypprof makes profiles in pprof's format of the page-locked and device memory that a
// program has, by the place that allocated it. The command "go tool pprof" reads them.
//
// A GPU records places from [ferry.GPU.RecordPlaces] on. A profile has four values for each place:
// alloc_objects and alloc_space since then, inuse_objects and inuse_space now, in bytes. The labels
// "gpu" and "kind" tell GPUs and kinds of memory apart: -tagfocus=kind=page-locked keeps one,
// -tagroot=kind shows each as a root. Package runtime/pprof cannot do this, because its own profiles
// count entries and not bytes.
package ferrypprof

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/metrics"
)

// Profile returns the memory of all open GPUs of a set. It asks no driver. It is safe for concurrent
// use. A GPU that does not record places has no samples.
func Profile(set *metrics.Set) (*profile.Profile, error) {
	b := newBuilder()
	for name, g := range set.GPUs() {
		places, err := ferry.MemoryPlaces(g)
		if errors.Is(err, ferry.ErrClosed) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("make a profile of the memory of %s: %w", name, err)
		}
		for _, p := range places {
			b.add(name, p)
		}
	}
	return b.finish(), nil
}

// Handler serves the profile of a set, for the path /debug/pprof/ferry:
//
//	go tool pprof http://localhost:6060/debug/pprof/ferry
//
// With ?debug=1 it is a text. Errors have the status 500.
func Handler(set *metrics.Set) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := Profile(set)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if r.FormValue("debug") != "" && r.FormValue("debug") != "0" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = fmt.Fprint(w, p) // the client is gone
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="ferry"`)
		_ = p.Write(w) // the client is gone
	})
}

// builder makes a profile.
type builder struct {
	mapping   *profile.Mapping
	locations map[uintptr]*profile.Location
	functions map[string]*profile.Function
	samples   []*profile.Sample
}

func newBuilder() *builder {
	program, err := os.Executable()
	if err != nil {
		program = "unknown"
	}
	return &builder{
		mapping:   &profile.Mapping{ID: 1, File: program, HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true},
		locations: map[uintptr]*profile.Location{}, functions: map[string]*profile.Function{},
	}
}

// add adds what a place has.
func (b *builder) add(gpu string, p ferry.MemoryPlace) {
	s := &profile.Sample{
		Value: []int64{p.AllBuffers, p.AllBytes, int64(p.Buffers), int64(p.Bytes)},
		Label: map[string][]string{"gpu": {gpu}, "kind": {p.Kind}},
	}
	for _, pc := range p.Stack {
		s.Location = append(s.Location, b.location(pc))
	}
	b.samples = append(b.samples, s)
}

// location returns the location of a return address of a stack.
func (b *builder) location(pc uintptr) *profile.Location {
	if l := b.locations[pc]; l != nil {
		return l
	}
	l := &profile.Location{ID: uint64(len(b.locations) + 1), Mapping: b.mapping, Address: uint64(pc)}
	frames := runtime.CallersFrames([]uintptr{pc})
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		l.Line = append(l.Line, profile.Line{Function: b.function(f), Line: int64(f.Line)})
	}
	b.locations[pc] = l
	return l
}

// function returns the function of a frame.
func (b *builder) function(f runtime.Frame) *profile.Function {
	key := f.Function + "\x00" + f.File
	if known := b.functions[key]; known != nil {
		return known
	}
	made := &profile.Function{ID: uint64(len(b.functions) + 1), Name: f.Function, SystemName: f.Function, Filename: f.File}
	b.functions[key] = made
	return made
}

// finish returns the profile.
func (b *builder) finish() *profile.Profile {
	return &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"},
			{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"},
		},
		DefaultSampleType: "inuse_space",
		Sample:            b.samples,
		Mapping:           []*profile.Mapping{b.mapping},
		Location:          slices.SortedFunc(maps.Values(b.locations), func(x, y *profile.Location) int { return int(x.ID) - int(y.ID) }),
		Function:          slices.SortedFunc(maps.Values(b.functions), func(x, y *profile.Function) int { return int(x.ID) - int(y.ID) }),
		TimeNanos:         time.Now().UnixNano(),
	}
}
