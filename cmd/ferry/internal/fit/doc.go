// Package fit fits the times of a profile to the measurements of "ferry bench" and
// "ferry compare". It is behind "ferry profile fit", and its command shipped fits the
// profile h200. It reads only the half of the cases that is for fitting ([grid.Case.Fits]).
//
// Each round first moves the curves, then the numbers. At each measured size, a curve is
// moved by the error of the kinds that depend on it, and then made to rise. Numbers are
// moved in groups to minimize the software GPU's error for the kinds that depend on them:
// the mean of |ln(predicted / measured)|. The same measurements give the same result.
//
// Package calibrate makes a rougher profile in seconds, while a run is at hand.
package fit
