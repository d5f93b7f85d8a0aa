// Package lines finds the line of a C program, or of one in another compiled language, for an
// address of its code: the return address of a call. It reads the debugging information (DWARF)
// of the file that is mapped there.
//
// It unwinds no stack: who has called the caller is not known.
package lines
