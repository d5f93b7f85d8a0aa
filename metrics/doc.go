// Package metrics has the figures of GPUs and pools that are worth watching while a program serves:
// page-locked memory by kind, the staging ring, device memory, pools. A [Set] reads them.
//
// The modules contrib/ferryprom and contrib/ferryotel give a Set to Prometheus and OpenTelemetry.
// A Set is a variable of package expvar by itself:
//
//	expvar.Publish("ferry", set)
//
// The names are in [All], and in contrib/README.md. This package imports no system of metrics.
package metrics
