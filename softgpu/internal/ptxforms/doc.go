// Package ptxforms has the table of the instructions that the software GPU runs.
//
// A form is an opcode with its modifiers in full, such as fma.rn.ftz.f32. The file
// table.go lists the forms as patterns, one on a line. It also lists the operations
// that are refused, with the reason. [Check] matches an instruction against the table.
// [Families] and [Forms] expand the table for tests and documentation.
//
// The package looks at modifiers only. The operands and the execution of an
// instruction belong to package simt.
package ptxforms
