// Package ferryprom gives the figures of GPUs to Prometheus.
//
// The metrics, their labels and what they mean are those of package
// [github.com/ferrygpu/ferry/metrics].
package ferryprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ferrygpu/ferry/metrics"
)

// collector is a prometheus.Collector.
type collector struct {
	set   *metrics.Set
	descs map[*metrics.Metric]*prometheus.Desc
}

// NewCollector returns a collector of all figures of a set, of which GPUs and pools may be added and
// removed later. Register it once. It is safe for concurrent use. Each collection calls Read of the
// set, which does not wait for the work of a device. A nil set has no figures.
func NewCollector(set *metrics.Set) prometheus.Collector {
	c := &collector{set: set, descs: map[*metrics.Metric]*prometheus.Desc{}}
	for _, m := range metrics.All() {
		c.descs[m] = prometheus.NewDesc(m.String(), m.Help+".", m.Labels, nil)
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range metrics.All() {
		to <- c.descs[m]
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, v := range c.set.Read() {
		kind := prometheus.GaugeValue
		if v.Counter {
			kind = prometheus.CounterValue
		}
		m, err := prometheus.NewConstMetric(c.descs[v.Metric], kind, v.Value, v.LabelValues...)
		if err != nil {
			m = prometheus.NewInvalidMetric(c.descs[v.Metric], err)
		}
		to <- m
	}
}
