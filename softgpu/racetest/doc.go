// Package racetest has pairs of small programs for the software GPU: one lacks
// a synchronization, the other is correct. Its tests run them under the race
// detector. The detector must report each wrong program, with the operation and
// the line that queued it, and no correct program. The package exports nothing.
package racetest
