// Package random generates random PTX programs for differential tests. They have
// arithmetic of every integer and float type, bit operations, conversions, comparisons,
// shuffles and votes, under predicates, in branches and in bounded loops.
//
// A seed determines a [Program]. Each thread loads all registers from its part of one
// buffer and stores all of them to its part of another one. The PTX ISA defines one
// result for every instruction, or hardware does where the ISA is silent. So there are no
// approximate functions, divisors are never zero, and warp-wide instructions are in code
// that all threads of a warp execute.
//
// [Shrink] removes the statements from a program that a disagreement does not need.
package random
