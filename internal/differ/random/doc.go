// Package random makes random PTX programs for differential tests: arithmetic of
// every integer and float type, bits, conversions, comparisons, shuffles and
// votes, under predicates, in branches and in bounded loops.
//
// A [Program] is made from a seed and nothing else. Each thread loads all
// registers from its part of one buffer and stores all of them to its part of
// another. Every instruction has one result that the PTX ISA, or hardware where
// that is silent, fixes: functions that approximate are not among them, divisors
// are never zero, and what a warp does together is where all threads come by.
//
// [Shrink] takes away from a program what a disagreement does not need.
package random
