package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/metrics"
	"github.com/ferrygpu/ferry/softgpu"
)

var _ expvar.Var = (*metrics.Set)(nil)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// values returns what a set reads by name.
func values(s *metrics.Set) map[string]float64 {
	all := map[string]float64{}
	for _, v := range s.Read() {
		all[v.Name()] = v.Value
	}
	return all
}

// full returns a set with a GPU "a" and pools that have memory, and what its figures must be.
func full(t *testing.T) (s *metrics.Set, g *ferry.GPU, want map[string]float64) {
	g = must(ferry.Open("soft"))(t)
	t.Cleanup(func() { check(t, g.Close()) })
	stream := must(ferry.NewStream(g, nil))(t)
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	devices := must(ferry.NewMemPool(g, nil))(t)
	var host ferry.Host[byte]
	check(t, host.Alloc(pool, 1<<20))
	own := must(ferry.AllocHost[byte](g, 2<<20, nil))(t)
	registered := must(ferry.Register(g, make([]byte, 5<<20), nil))(t)
	device := must(ferry.AllocAsync[byte](stream, 3<<20, devices))(t)
	check(t, ferry.Copy(stream, device, ferry.Pageable(make([]byte, 3<<20))))
	check(t, stream.Wait(context.Background()))
	t.Cleanup(func() {
		check(t, errors.Join(own.Close(), registered.Close(), host.Close(), device.Close(), pool.Close(), devices.Close(), stream.Close()))
	})

	s = new(metrics.Set)
	check(t, s.AddGPU("a", g))
	check(t, s.AddPinnedPool("requests", pool))
	check(t, s.AddMemPool("scratch", devices))
	check(t, g.LimitHost(1<<33))
	ring, err := g.Staging().Stats()
	check(t, err)
	use := must(ferry.HostStats(g))(t)
	free, size, err := g.MemInfo()
	check(t, err)
	pinned, used := must(pool.Stats())(t), must(devices.Stats())(t)
	want = map[string]float64{
		`ferry_gpu_info{gpu="a",name="NVIDIA H200"}`:                    1,
		`ferry_page_locked_bytes{gpu="a",kind="staging"}`:               float64(use.Staging),
		`ferry_page_locked_bytes{gpu="a",kind="allocated"}`:             float64(use.Allocated),
		`ferry_page_locked_bytes{gpu="a",kind="pooled"}`:                float64(use.Pooled),
		`ferry_page_locked_bytes{gpu="a",kind="registered"}`:            float64(use.Registered),
		`ferry_page_locked_bytes{gpu="a",kind="pipeline"}`:              float64(use.Pipelines),
		`ferry_page_locked_peak_bytes{gpu="a"}`:                         float64(use.MostLocked),
		`ferry_page_locked_limit_bytes{gpu="a"}`:                        1 << 33,
		`ferry_staging_in_use_bytes{gpu="a"}`:                           float64(ring.InUse),
		`ferry_staging_limit_bytes{gpu="a"}`:                            float64(ring.Limit),
		`ferry_device_memory_size_bytes{gpu="a"}`:                       float64(size),
		`ferry_device_memory_free_bytes{gpu="a"}`:                       float64(free),
		`ferry_pool_used_bytes{gpu="a",pool="requests"}`:                float64(pinned.Used),
		`ferry_pool_in_flight_bytes{gpu="a",pool="requests"}`:           0,
		`ferry_pool_page_locked_bytes{gpu="a",pool="requests"}`:         float64(pinned.Pinned),
		`ferry_pool_page_locked_peak_bytes{gpu="a",pool="requests"}`:    float64(pinned.MostPinned),
		`ferry_pool_hits_total{gpu="a",pool="requests"}`:                float64(pinned.Hits),
		`ferry_pool_driver_calls_total{gpu="a",pool="requests"}`:        float64(pinned.DriverCalls),
		`ferry_pool_driver_seconds_total{gpu="a",pool="requests"}`:      pinned.DriverTime.Seconds(),
		`ferry_device_pool_used_bytes{gpu="a",pool="scratch"}`:          float64(used.Used),
		`ferry_device_pool_used_peak_bytes{gpu="a",pool="scratch"}`:     float64(used.MostUsed),
		`ferry_device_pool_reserved_bytes{gpu="a",pool="scratch"}`:      float64(used.Reserved),
		`ferry_device_pool_reserved_peak_bytes{gpu="a",pool="scratch"}`: float64(used.MostReserved),
	}
	if use.Allocated < 2<<20 || use.Registered < 5<<20 || use.Pooled != pinned.Pinned || use.Staging != ring.Locked || ring.Locked == 0 || pinned.Used < 1<<20 || used.Used < 3<<20 {
		t.Fatalf("nothing to see: %+v %+v %+v", ring, pinned, used)
	}
	return s, g, want
}

// TestRead: a set has the figures that the GPU and the pools return themselves, each metric once.
func TestRead(t *testing.T) {
	s, g, want := full(t)
	got := values(s)
	for name, v := range want {
		if x, ok := got[name]; !ok || x != v {
			t.Errorf("%s is %v, want %v", name, x, v)
		}
	}
	sum := 0.0
	for name, v := range got {
		if strings.HasPrefix(name, "ferry_page_locked_bytes{") {
			sum += v
		}
	}
	if use := must(ferry.HostStats(g))(t); sum != float64(use.Locked) {
		t.Errorf("the kinds of page-locked memory have %v bytes, want %d", sum, use.Locked)
	}
	if n := len(s.Read()); n != len(got) {
		t.Errorf("%d values have %d names", n, len(got))
	}
	seen := map[*metrics.Metric]bool{}
	last := -1
	for _, v := range s.Read() {
		at := 0
		for i, m := range metrics.All() {
			if m == v.Metric {
				at = i
			}
		}
		if at < last || len(v.LabelValues) != len(v.Labels) {
			t.Errorf("%s is out of order, or has the labels %q", v.Name(), v.LabelValues)
		}
		last, seen[v.Metric] = at, true
	}
	for _, m := range metrics.All() {
		if !seen[m] {
			t.Errorf("%v has no value", m)
		}
	}
}

// TestNames: names are those that Prometheus wants.
func TestNames(t *testing.T) {
	valid := regexp.MustCompile(`^ferry_[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	for _, m := range metrics.All() {
		name := m.String()
		if !valid.MatchString(name) || seen[name] || strings.HasSuffix(name, "_total") != m.Counter || !strings.Contains(name, string(m.Unit)) {
			t.Errorf("the name of %+v is %s", m, name)
		}
		if m.Help == "" || strings.HasSuffix(m.Help, ".") || len(m.Labels) == 0 || m.Labels[0] != "gpu" {
			t.Errorf("%s has the help %q and the labels %q", name, m.Help, m.Labels)
		}
		seen[name] = true
	}
}

// TestExpvar: the text of a set is a JSON object of its figures.
func TestExpvar(t *testing.T) {
	s, _, want := full(t)
	got := map[string]float64{}
	check(t, json.Unmarshal([]byte(s.String()), &got))
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s is %v, want %v", name, got[name], v)
		}
	}
	if text := new(metrics.Set).String(); text != "{}" {
		t.Errorf("an empty set is %s", text)
	}
}

// TestClosed: a closed GPU leaves the set with its pools, and a closed memory pool leaves it alone.
// Names are free then, and taken before.
func TestClosed(t *testing.T) {
	g := must(ferry.Open("soft"))(t)
	pool, devices := must(ferry.NewPinnedPool(g, nil))(t), must(ferry.NewMemPool(g, nil))(t)
	var s metrics.Set
	check(t, s.AddGPU("", g))
	check(t, s.AddPinnedPool("p", pool))
	check(t, s.AddMemPool("d", devices))
	other := must(ferry.Open("soft"))(t)
	for _, err := range []error{s.AddGPU("", other), s.AddPinnedPool("p", pool), s.AddGPU("", nil), s.AddPinnedPool("", pool), s.AddMemPool("x", nil)} {
		if !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("want an error, got %v", err)
		}
	}
	count := func(part string) (n int) {
		for name := range values(&s) {
			if strings.Contains(name, part) {
				n++
			}
		}
		return n
	}
	if count(`gpu="soft:h200"`) < 8 || count(`pool="p"`) != 7 || count(`pool="d"`) != 4 {
		t.Errorf("the set has %v", values(&s))
	}
	check(t, devices.Close())
	if count(`pool="d"`) != 0 || count(`pool="p"`) != 7 {
		t.Errorf("after the memory pool's Close the set has %v", values(&s))
	}
	check(t, errors.Join(pool.Close(), g.Close()))
	if n := len(s.Read()); n != 0 || s.Len() != 0 {
		t.Errorf("after Close of the GPU the set has %v, and keeps %d", values(&s), s.Len())
	}
	for name := range s.GPUs() {
		t.Error("the closed GPU is there: ", name)
	}
	if err := errors.Join(s.AddGPU("x", g), s.AddPinnedPool("x", pool)); !errors.Is(err, ferry.ErrClosed) || s.Len() != 0 {
		t.Errorf("a closed GPU is taken: %v", err)
	}
	var none *metrics.Set
	none.Remove("", g)
	for _, err := range []error{none.AddGPU("", other), s.AddGPU("", new(ferry.GPU)), s.AddPinnedPool("x", new(ferry.PinnedPool))} {
		if !errors.Is(err, cu.ErrorInvalidValue) || len(none.Read()) != 0 {
			t.Errorf("want an error, got %v", err)
		}
	}
	check(t, s.AddGPU("", other))
	check(t, s.AddGPU("second", must(ferry.Open("soft"))(t)))
	names := ""
	for name, g := range s.GPUs() {
		names += name + " "
		defer func() { check(t, g.Close()) }()
	}
	if names != "second soft:h200 " || count("ferry_gpu_info") != 2 {
		t.Errorf("the GPUs are %q, with %v", names, values(&s))
	}
	s.Remove("", other)
	if count("soft:h200") != 0 || count("second") == 0 {
		t.Errorf("after Remove the set has %v", values(&s))
	}
}

// held is a driver whose question about memory waits.
type held struct {
	cu.Driver
	questions atomic.Int64
	release   chan bool
}

func (d *held) Unwrap() cu.Driver { return d.Driver }

func (d *held) MemGetInfo(ctx cu.Context) (free, total uintptr, err error) {
	d.questions.Add(1)
	<-d.release
	return d.Driver.MemGetInfo(ctx)
}

// TestDriverWaits: while the driver holds a question up, Read returns what needs no driver, and asks
// no second time.
func TestDriverWaits(t *testing.T) {
	d := &held{Driver: must(softgpu.Open(softgpu.Options{}))(t), release: make(chan bool)}
	g := must(ferry.OpenDriver(d, 0))(t)
	var s metrics.Set
	check(t, s.AddGPU("g", g))
	for range 2 {
		got := values(&s)
		if _, asked := got[`ferry_device_memory_size_bytes{gpu="g"}`]; asked || got[`ferry_staging_limit_bytes{gpu="g"}`] == 0 {
			t.Errorf("the set has %v", got)
		}
	}
	if n := d.questions.Load(); n != 1 {
		t.Errorf("the driver was asked %d times", n)
	}
	close(d.release)
	for values(&s)[`ferry_device_memory_size_bytes{gpu="g"}`] == 0 { // until the driver answers in time
	}
	check(t, g.Close())
}

// TestConcurrent reads a set while GPUs and pools come and go, and memory is allocated.
func TestConcurrent(t *testing.T) {
	var s metrics.Set
	var work, readers sync.WaitGroup
	var over atomic.Bool
	for range 2 {
		readers.Go(func() {
			for !over.Load() {
				_ = s.String()
			}
		})
	}
	for i := range 3 {
		work.Go(func() {
			for range 20 {
				g, err := ferry.Open("soft")
				if err != nil {
					t.Error(err)
					return
				}
				name := string(rune('a' + i))
				pool, err := ferry.NewPinnedPool(g, nil)
				err = errors.Join(err, s.AddGPU(name, g), s.AddPinnedPool("p", pool))
				for range 10 {
					var host ferry.Host[byte]
					err = errors.Join(err, host.Alloc(pool, 1<<16), host.Close())
				}
				if err := errors.Join(err, pool.Close(), g.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	over.Store(true)
	readers.Wait()
	if left := s.Read(); len(left) != 0 {
		t.Errorf("closed GPUs have the figures %v", left)
	}
}
