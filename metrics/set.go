package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Set is a set of GPUs and pools whose figures are read together. The zero Set is empty. It is safe
// for concurrent use, and must not be copied. Closed GPUs leave it, with their pools.
type Set struct {
	mu      sync.Mutex
	sources map[key]*source
}

// key is the name of what has figures.
type key struct{ gpu, pool string }

// source is a GPU or a pool.
type source struct {
	key
	g      *ferry.GPU
	read   func(*reading) // figures that need no call of the driver; nil for none
	driver *asked         // those that need one; nil for none
}

// reading is a source while it is read, and what it has.
type reading struct {
	labels []string // values of gpu and pool
	values []Value
	closed bool // the GPU or pool is closed
}

// Value is one figure.
type Value struct {
	*Metric
	LabelValues []string // in the order of Metric.Labels
	Value       float64
}

func (r *reading) add(m *Metric, v float64, more ...string) {
	r.values = append(r.values, Value{m, slices.Concat(r.labels, more), v})
}

func (r *reading) bytes(m *Metric, n int, more ...string) { r.add(m, float64(n), more...) }

// failed notes an error: its figures are missing this time.
func (r *reading) failed(err error) bool {
	r.closed = r.closed || errors.Is(err, ferry.ErrClosed)
	return err != nil
}

// AddGPU adds a GPU, with the label gpu=name. With "" the name is the short one, such as "cuda:0".
// GPUs that are open on the same device share their page-locked memory: add one of them. The error is
// that of a nil GPU, of a closed one, and of a name that an open GPU of the set has.
func (s *Set) AddGPU(name string, g *ferry.GPU) error {
	if g == nil {
		return refusal.Invalid("watch a GPU: no GPU given (nil)")
	}
	if name == "" {
		name = shortName(g)
	}
	name = strings.ToValidUTF8(name, "?")
	return s.add(&source{key: key{gpu: name}, g: g, read: func(r *reading) { r.gpu(g) }, driver: &asked{ask: func(r *reading) { r.device(g) }}})
}

// AddPinnedPool adds a pool of page-locked memory, with the labels of AddGPU and pool=name. It stays
// in the set until its GPU is closed, or [Set.Remove]. The error is that of a nil pool, of an empty
// name, and of one that a pool of the GPU has.
func (s *Set) AddPinnedPool(name string, p *ferry.PinnedPool) error {
	return s.addPool(name, p.GPU(), func(of key) *source {
		return &source{key: of, g: p.GPU(), read: func(r *reading) { r.pinnedPool(p) }}
	})
}

// AddMemPool adds a pool of device memory, with the labels of AddGPU and pool=name. It leaves the set
// when it or its GPU is closed. Errors are as for AddPinnedPool.
func (s *Set) AddMemPool(name string, p *ferry.MemPool) error {
	return s.addPool(name, p.GPU(), func(of key) *source {
		return &source{key: of, g: p.GPU(), driver: &asked{ask: func(r *reading) { r.memPool(p) }}}
	})
}

func (s *Set) addPool(name string, g *ferry.GPU, make func(of key) *source) error {
	switch {
	case g == nil:
		return refusal.Invalid("watch a pool: no pool given (nil)")
	case name == "":
		return refusal.Invalid("watch a pool of %v: it has no name: give one, which becomes the label pool", g)
	}
	return s.add(make(key{s.nameOf(g), strings.ToValidUTF8(name, "?")}))
}

// add adds a source. One of a closed GPU makes room for it.
func (s *Set) add(x *source) error {
	if s == nil {
		return refusal.Invalid("watch %v: no set given (nil)", x.g)
	}
	if _, err := x.g.Staging().Stats(); err != nil {
		return fmt.Errorf("watch %v: %w", x.g, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.sources[x.key]; old != nil && isOpen(old.g) {
		return refusal.Invalid("watch %v: the set has %s already: give another name", x.g, strings.TrimSpace(x.gpu+" "+x.pool))
	}
	if s.sources == nil {
		s.sources = map[key]*source{}
	}
	s.sources[x.key] = x
	return nil
}

// nameOf returns the label of a GPU: the one that the set has, else its short name.
func (s *Set) nameOf(g *ferry.GPU) string {
	for _, x := range s.all() {
		if x.g == g {
			return x.gpu
		}
	}
	return shortName(g)
}

// Remove removes the pool with a name of g, or g itself with its pools if the name is "". It does
// nothing if the set has no such pool or GPU.
func (s *Set) Remove(pool string, g *ferry.GPU) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.sources, func(k key, x *source) bool { return x.g == g && (pool == "" || pool == k.pool) })
}

// GPUs returns the open GPUs of the set by their names, in the order of these.
func (s *Set) GPUs() iter.Seq2[string, *ferry.GPU] {
	return func(yield func(string, *ferry.GPU) bool) {
		for _, x := range s.all() {
			if x.pool == "" && isOpen(x.g) && !yield(x.gpu, x.g) {
				return
			}
		}
	}
}

// all returns the sources in the order of their names.
func (s *Set) all() []*source {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Values(s.sources))
	slices.SortFunc(all, func(a, b *source) int {
		if c := strings.Compare(a.gpu, b.gpu); c != 0 {
			return c
		}
		return strings.Compare(a.pool, b.pool)
	})
	return all
}

// patience is how long Read waits for the driver.
const patience = time.Second

// Read returns all figures, in the order of [All] and then of the names. It never waits for the work
// of a device. Figures of device memory and of memory pools need a call of the driver: Read waits
// for these for at most a second, and leaves out what is not known by then. It leaves out, too, what
// cannot be read because of an error.
func (s *Set) Read() []Value {
	all := s.all()
	for _, x := range all {
		if x.driver != nil {
			x.driver.begin(x.labels())
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var values []Value
	for _, x := range all {
		r := reading{labels: x.labels()}
		if x.read != nil {
			x.read(&r)
		}
		if x.driver != nil && !r.closed {
			x.driver.wait(ctx, &r)
		}
		if r.closed {
			s.forget(x)
			continue
		}
		values = append(values, r.values...)
	}
	order := map[*Metric]int{}
	for i, m := range All() {
		order[m] = i
	}
	slices.SortStableFunc(values, func(a, b Value) int { return order[a.Metric] - order[b.Metric] })
	return values
}

// labels returns the values of the labels gpu and pool.
func (x *source) labels() []string {
	if x.pool == "" {
		return []string{x.gpu}
	}
	return []string{x.gpu, x.pool}
}

// forget removes what is closed.
func (s *Set) forget(x *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources[x.key] == x {
		delete(s.sources, x.key)
	}
}

// String returns the figures as a JSON object, such as
// {"ferry_page_locked_bytes{gpu=\"cuda:0\",kind=\"staging\"}": 0}. So a Set is a variable of package
// expvar.
func (s *Set) String() string {
	values := map[string]float64{}
	for _, v := range s.Read() {
		values[v.Name()] = v.Value
	}
	text, err := json.Marshal(values)
	if err != nil {
		return "{}" // no figure is infinite
	}
	return string(text)
}

// Name returns the name of the metric and the labels, as Prometheus writes them.
func (v Value) Name() string {
	var b strings.Builder
	b.WriteString(v.Metric.String())
	for i, label := range v.Labels {
		b.WriteString([]string{"{", ","}[min(i, 1)] + label + `="` + escape.Replace(v.LabelValues[i]) + `"`)
	}
	return b.String() + "}"
}

// escape escapes the value of a label.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// shortName returns the name of a GPU without the product: "cuda:0".
func shortName(g *ferry.GPU) string {
	name, _, _ := strings.Cut(g.String(), " (")
	return name
}
