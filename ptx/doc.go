// Package ptx parses PTX, the assembly language of NVIDIA GPUs, and checks it.
//
// [Parse] accepts PTX 1.0 to 9.x and every well-formed instruction, known or not. An
// opcode stays a name with its modifiers. Parse resolves and checks names: registers,
// symbols, labels, scopes, guards, declarations and initialisers. It does not check
// the operands that an opcode needs. The code that executes instructions does that.
//
// An error is an [*Error] with file, line, column, the source line and a caret, or an
// [ErrorList] of up to ten of them.
//
// The package depends on the standard library only. It allocates memory in proportion
// to its input, whatever sizes the input claims.
package ptx
