// Command fit fits the times of a profile to what "ferry bench" and "ferry compare"
// measured:
//
//	go run ./internal/fit                                              # profile/h200.json
//	go run ./internal/fit -profile mine.json mine-[12].json other.json # another, two leases
//
// An argument is a lease, one machine for one while: a pattern of file names. The
// program looks at the half of the cases that are for fitting ([grid.Case.Test] is
// false), takes the median of a case over the files of a lease and then over the
// leases, and never sees the rest.
//
// It begins at the starts written in this package, and with empty curves, whatever
// the profile has. A curve is moved at the sizes that were measured by what its kinds
// are off there, and made to rise. Single numbers are moved in groups to where the
// software GPU's predictions of the kinds that depend on them are off least (the mean
// of |ln(predicted / measured)|). Both take turns, and the profile is written back
// with the source "fit" on all that was fitted. Same files, same result.
package main
