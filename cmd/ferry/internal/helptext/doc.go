// Package helptext reads the texts of help, which are written in lines of 80 columns, and
// writes them anew: filled for the columns of a terminal, or as roff for a manual page.
//
// Lines that are not indented are a paragraph. A line "  NAME  TEXT" is an item of a list, and
// lines that begin below its text go on with that. Other indented lines stay as they are.
package helptext
