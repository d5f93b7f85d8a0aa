// Command fit fits the times of a profile to the measurements of "ferry bench" and
// "ferry compare":
//
//	go run ./internal/fit                                              # profile/h200.json
//	go run ./internal/fit -profile mine.json mine-[12].json other.json # another profile, two machines
//
// Each argument is a pattern of file names. Its files are the runs on one machine. The
// program reads only the half of the cases that is for fitting ([grid.Case.Fits]). It
// takes the median of each case over the files of a machine, then the median over the
// machines.
//
// The fit starts from the values in this package and from empty curves, and does not use
// the values in the profile. Each round first moves the curves, then the numbers. At each
// measured size, a curve is moved by the error of the kinds that depend on it, and then
// made to rise. Numbers are moved in groups to minimize the software GPU's error for the
// kinds that depend on them: the mean of |ln(predicted / measured)|. The profile is
// written back, with the source "fit" for all fitted values. The same files give the
// same result.
package main
