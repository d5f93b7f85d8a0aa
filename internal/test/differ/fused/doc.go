// Package fused has small kernels that multiply and add without a rounding modifier, and
// what a GPU computes for them.
//
// The PTX ISA lets a compiler join a mul and an add that have no rounding modifier: the
// product is then not rounded. ptxas does so by rules of its own, and the software GPU
// follows them. testdata/forms.txt has the forms that were measured.
package fused
