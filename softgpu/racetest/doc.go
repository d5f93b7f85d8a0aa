// Package racetest holds pairs of small programs for the software GPU: one with a
// missing synchronisation, and the same one right. Its tests run them under the
// race detector, which must report each wrong one, naming the operation and the
// line that queued it, and no right one. There is nothing here to import.
package racetest
