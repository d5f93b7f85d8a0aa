// Package layout arranges the text of a report for the columns of a terminal. A [Page] is a
// list of lines and tables. A [Table] has cells, so that nothing is guessed from blanks: its
// first column is the key of a row, which is never cut and stands before all other cells.
//
// A table that is too wide gives way in this order: the words of its last column are folded,
// if that is a text; long keys get a line of their own above their cells; each row becomes a
// list of names and values below its key. Without a number of columns, as in a file or a pipe,
// nothing is folded, and each row is one line.
package layout
