// Package profile says what a machine costs: what its device can do, how long
// its link, engines and calls take. One JSON document a machine.
//
// The software GPU plays a profile; others decide by it. Nothing else in Ferry
// holds a constant about a machine, and every number here carries its source:
// measured where and when, a datasheet, or a guess.
//
// Costs are of two shapes. A [Number] is one value. A [Curve] is a time against
// a number of bytes, given by points, straight between them and on past the
// last. docs/RATIONALE.md says how they were measured.
package profile
