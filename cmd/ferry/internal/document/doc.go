// Package document has the form of the JSON documents that the command writes and reads.
// Each is one indented object whose "schema" names its kind and version. [Indent] gives it
// its form. [Decode] reads one, and says where a document is wrong: as LINE:COLUMN of the
// file, like a compiler.
package document
