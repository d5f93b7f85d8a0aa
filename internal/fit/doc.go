// Command fit fits the times of a profile to what "ferry bench" measured:
//
//	go run ./internal/fit -profile profile/h200.json docs/results/grid-h200-[1-6].json
//
// It looks at the half of the cases that are for fitting ([grid.Case.Test] is
// false), takes the median of a case over the files, and never sees the rest.
// Single numbers are moved one at a time, to where the software GPU's predictions
// of the kinds that depend on them are off least (the sum of |ln(predicted /
// measured)|); a curve is moved at the sizes that were measured by what its kind
// is off. Both take turns, and the profile is written back with the source "fit"
// on all that was fitted. Same files, same result.
package main
