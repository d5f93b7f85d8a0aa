// Package load is what "ferry load" does: it loads tensors of checkpoints onto a GPU, or plans that,
// and says how fast it was and what bounded it.
//
// A load is recorded by package trace, so that the report has what the link did: its copies, the
// page-locking, and the time between copies in which files were read. What the files themselves
// waited for comes from counters of the system. bound.go judges these parts.
package load
