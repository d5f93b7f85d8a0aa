// Package permute writes PTX with the basic blocks of each function in another order. The
// blocks are joined by explicit branches, so the result computes the same. Straight code is
// cut into blocks, too. A decoder that takes the order of the text for the order of
// execution computes something else.
//
// Blocks stay within the braces that enclose them, because labels and declarations within
// braces are not visible outside. Braces around a call and its parameters stay whole, as
// ptxas demands that the instructions between them follow each other.
//
// Package differ compares its kernels with their permuted form, and package
// internal/test/differ/random its programs.
package permute
