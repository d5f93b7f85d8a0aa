// Command shipped writes profile/h200.json anew, or another profile: it fits the times to the
// measurements of several machines. Without arguments these are the files in docs/results.
//
//	go run ./cmd/ferry/internal/fit/shipped                                              # profile/h200.json
//	go run ./cmd/ferry/internal/fit/shipped -profile mine.json mine-[12].json other.json # another profile, two machines
//
// Each argument is a pattern of file names. Its files are the runs on one machine. The
// program takes the median of each case over the files of a machine, then the median over
// the machines. "ferry profile fit" is for one machine.
//
// The fit starts from the values in package fit and from empty curves, and does not use
// the values in the profile. All fitted values get the source "fit".
package main
