// Package ptx reads PTX, the assembly language of NVIDIA GPUs: text in, checked
// program out.
//
// [Parse] accepts PTX 1.0 to 9.x and every instruction that is well formed, known
// or not: operation codes stay names with their modifiers. Names are resolved and
// checked: registers, symbols, labels, scopes, guards, declarations, initialisers.
// What one operation code demands of its operands is the business of those who
// execute it.
//
// Problems come as [*Error], with file, line, column, the source line and a caret,
// or as an [ErrorList] of up to ten of them.
//
// The package depends on the standard library alone and allocates in proportion
// to its input, whatever sizes the input claims.
package ptx
