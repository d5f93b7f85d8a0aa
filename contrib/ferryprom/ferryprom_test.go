package ferryprom_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/contrib/ferryprom"
	"github.com/ferrygpu/ferry/metrics"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a software GPU, and adds it to a set with a pool.
func open(t testing.TB, set *metrics.Set, name string) (*ferry.GPU, *ferry.PinnedPool) {
	t.Helper()
	gpu, err := ferry.Open("soft")
	check(t, err)
	pool, err := ferry.NewPinnedPool(gpu, nil)
	check(t, err)
	check(t, set.AddGPU(name, gpu))
	check(t, set.AddPinnedPool("requests", pool))
	return gpu, pool
}

// scrape returns what Prometheus reads.
func scrape(t testing.TB, registry *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(w.Result().Body)
	check(t, err)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, text)
	}
	return string(text)
}

// TestScrape: a scrape has each value of the set, for two GPUs, with one description each, by the rules
// of Prometheus for names. A closed GPU is gone.
func TestScrape(t *testing.T) {
	set := new(metrics.Set)
	registry := prometheus.NewPedanticRegistry()
	check(t, registry.Register(ferryprom.NewCollector(set)))
	one, pool := open(t, set, "one")
	two, pool2 := open(t, set, "two")
	var host ferry.Host[byte]
	check(t, host.Alloc(pool, 1<<20))

	text := scrape(t, registry)
	for _, v := range set.Read() {
		if want := fmt.Sprintf("\n%s %v\n", v.Name(), prometheusNumber(v.Value)); !strings.Contains(text, want) {
			t.Errorf("the scrape lacks %q:\n%s", want, text)
		}
		kind := map[bool]string{true: "counter", false: "gauge"}[v.Counter]
		for _, want := range []string{fmt.Sprintf("# TYPE %v %s\n", v.Metric, kind), fmt.Sprintf("# HELP %v %s.\n", v.Metric, v.Help)} {
			if strings.Count(text, want) != 1 {
				t.Errorf("the scrape has %q %d times", want, strings.Count(text, want))
			}
		}
	}
	problems, err := testutil.GatherAndLint(registry)
	check(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, err := range []error{host.Close(), pool.Close(), one.Close()} {
		check(t, err)
	}
	if text := scrape(t, registry); strings.Contains(text, `gpu="one"`) || !strings.Contains(text, `gpu="two"`) {
		t.Errorf("after the Close of one the scrape is:\n%s", text)
	}
	check(t, pool2.Close())
	check(t, two.Close())
	if text := scrape(t, registry); text != "" {
		t.Errorf("without a GPU the scrape is:\n%s", text)
	}
}

// prometheusNumber is how Prometheus writes a number.
func prometheusNumber(v float64) string {
	family := prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"})
	family.Set(v)
	registry := prometheus.NewRegistry()
	registry.MustRegister(family)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	_, number, _ := strings.Cut(w.Body.String(), "\nx ")
	return strings.TrimSpace(number)
}

// TestConcurrent scrapes while goroutines allocate, and a GPU is closed.
func TestConcurrent(t *testing.T) {
	set := new(metrics.Set)
	registry := prometheus.NewPedanticRegistry()
	check(t, registry.Register(ferryprom.NewCollector(set)))
	gpu, pool := open(t, set, "")
	var over atomic.Bool
	var scrapers, workers sync.WaitGroup
	for range 2 {
		scrapers.Go(func() {
			for !over.Load() {
				scrape(t, registry)
			}
		})
	}
	for range 4 {
		workers.Go(func() {
			for range 300 {
				var host ferry.Host[byte]
				if err := host.Alloc(pool, 1<<16); err != nil {
					t.Error(err)
				}
				if err := host.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	check(t, pool.Close())
	check(t, gpu.Close())
	over.Store(true)
	scrapers.Wait()
}
