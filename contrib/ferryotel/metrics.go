package ferryotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/ferrygpu/ferry/metrics"
)

// name is the instrumentation scope.
const name = "github.com/ferrygpu/ferry/contrib/ferryotel"

// Register makes an observable instrument for each metric, with a callback that reads the set. GPUs
// and pools may be added to the set later. The name is "ferry." and the metric's path, the unit is
// "By" or "s", and the labels are attributes. Amounts of bytes are up-down counters. A nil provider
// is an error. Unregister of the result ends it.
//
// The callback calls Read of the set, which does not wait for the work of a device.
func Register(set *metrics.Set, provider metric.MeterProvider) (metric.Registration, error) {
	if set == nil || provider == nil {
		return nil, fmt.Errorf("register the metrics of ferry: no set or no provider given (nil)")
	}
	meter := provider.Meter(name)
	to := map[*metrics.Metric]func(metric.Observer, float64, metric.ObserveOption){}
	var all []metric.Observable
	for _, m := range metrics.All() {
		instrument, observe, err := instrumentOf(meter, m)
		if err != nil {
			return nil, fmt.Errorf("register the metric ferry.%s: %w", m.Path, err)
		}
		to[m] = observe
		all = append(all, instrument)
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, v := range set.Read() {
			to[v.Metric](o, v.Value, metric.WithAttributes(attributes(v)...))
		}
		return nil
	}, all...)
}

// instrumentOf makes the instrument of a metric, and returns what observes a value by it.
func instrumentOf(meter metric.Meter, m *metrics.Metric) (metric.Observable, func(metric.Observer, float64, metric.ObserveOption), error) {
	path, help := "ferry."+m.Path, metric.WithDescription(m.Help)
	integer := func(i metric.Int64Observable, err error) (metric.Observable, func(metric.Observer, float64, metric.ObserveOption), error) {
		return i, func(o metric.Observer, v float64, a metric.ObserveOption) { o.ObserveInt64(i, int64(v), a) }, err
	}
	switch {
	case m.Unit == metrics.Seconds:
		i, err := meter.Float64ObservableCounter(path, help, metric.WithUnit("s"))
		return i, func(o metric.Observer, v float64, a metric.ObserveOption) { o.ObserveFloat64(i, v, a) }, err
	case m.Unit == metrics.Bytes:
		return integer(meter.Int64ObservableUpDownCounter(path, help, metric.WithUnit("By")))
	case m.Counter:
		return integer(meter.Int64ObservableCounter(path, help))
	}
	return integer(meter.Int64ObservableGauge(path, help))
}

// attributes returns the labels of a value.
func attributes(v metrics.Value) []attribute.KeyValue {
	var all []attribute.KeyValue
	for i, label := range v.Labels {
		all = append(all, attribute.String(label, v.LabelValues[i]))
	}
	return all
}
