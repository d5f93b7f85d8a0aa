//go:build !race

package racebuild

// On is true with the race detector.
const On = false
