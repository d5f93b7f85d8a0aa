// Package tracereport reports recordings of package trace: the tables of nvprof, JSON,
// and the format of Chrome and Perfetto.
package tracereport
