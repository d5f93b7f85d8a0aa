package ferryotel_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/contrib/ferryotel"
	"github.com/ferrygpu/ferry/metrics"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// collected returns what a reader collects: values by name and attributes, and the unit and kind of
// each name.
func collected(t testing.TB, reader sdk.Reader) (values map[string]float64, units map[string]string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	check(t, reader.Collect(context.Background(), &all))
	values, units = map[string]float64{}, map[string]string{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			add := func(set attribute.Set, v float64) {
				values[m.Name+" "+set.Encoded(attribute.DefaultEncoder())] = v
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				units[m.Name] = fmt.Sprintf("%s sum monotonic=%v", m.Unit, data.IsMonotonic)
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				units[m.Name] = fmt.Sprintf("%s sum monotonic=%v", m.Unit, data.IsMonotonic)
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				units[m.Name] = m.Unit + " gauge"
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
			if m.Description == "" {
				t.Errorf("%s has no description", m.Name)
			}
		}
	}
	return values, units
}

// open opens a software GPU with a pool, and adds both to a set.
func open(t testing.TB, set *metrics.Set) (*ferry.GPU, *ferry.PinnedPool) {
	t.Helper()
	gpu, err := ferry.Open("soft")
	check(t, err)
	pool, err := ferry.NewPinnedPool(gpu, nil)
	check(t, err)
	check(t, set.AddGPU("a", gpu))
	check(t, set.AddPinnedPool("p", pool))
	return gpu, pool
}

// TestMetrics: a reader collects each value of the set, with attributes and units, and nothing of a
// closed GPU.
func TestMetrics(t *testing.T) {
	set := new(metrics.Set)
	gpu, pool := open(t, set)
	var host ferry.Host[byte]
	check(t, host.Alloc(pool, 1<<20))
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	registration, err := ferryotel.Register(set, provider)
	check(t, err)

	got, units := collected(t, reader)
	for _, v := range set.Read() {
		var attributes []attribute.KeyValue
		for i, label := range v.Labels {
			attributes = append(attributes, attribute.String(label, v.LabelValues[i]))
		}
		all := attribute.NewSet(attributes...)
		name := "ferry." + v.Path
		if x, ok := got[name+" "+all.Encoded(attribute.DefaultEncoder())]; !ok || x != v.Value {
			t.Errorf("%s is %v, want %v; collected %v", v.Name(), x, v.Value, got)
		}
		want := map[metrics.Unit]string{metrics.Bytes: "By", metrics.Seconds: "s"}[v.Unit]
		if want += fmt.Sprintf(" sum monotonic=%v", v.Counter); v.Unit == metrics.None && !v.Counter {
			want = " gauge"
		}
		if units[name] != want {
			t.Errorf("%s is a %q, want %q", name, units[name], want)
		}
	}
	if n := len(set.Read()); n != len(got) {
		t.Errorf("%d values are collected, want %d", len(got), n)
	}
	check(t, host.Close())
	check(t, pool.Close())
	check(t, gpu.Close())
	if got, _ := collected(t, reader); len(got) != 0 {
		t.Errorf("of a closed GPU are collected %v", got)
	}
	check(t, registration.Unregister())
	if _, err := ferryotel.Register(nil, provider); err == nil {
		t.Error("a nil set is registered")
	}
	if _, err := ferryotel.Register(set, nil); err == nil {
		t.Error("a nil provider is taken")
	}
}

// TestMetricsConcurrent collects while goroutines allocate.
func TestMetricsConcurrent(t *testing.T) {
	set := new(metrics.Set)
	gpu, pool := open(t, set)
	reader := sdk.NewManualReader()
	_, err := ferryotel.Register(set, sdk.NewMeterProvider(sdk.WithReader(reader)))
	check(t, err)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 200 {
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
	for range 20 {
		collected(t, reader)
	}
	workers.Wait()
	check(t, pool.Close())
	check(t, gpu.Close())
}
