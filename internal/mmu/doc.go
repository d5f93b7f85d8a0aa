// Package mmu holds page tables that one can look into: those of a CPU, of
// NVIDIA's devices and of an IOMMU, at the level a teacher would draw them.
//
// A [Format] says how an address is cut into the indices of radix levels and at
// which levels an entry may be a page. A [Table] is filled by [Table.Map] and
// walked by [Table.Walk], which gives the entry read at each level, down to the
// page or to the level where nothing is mapped. Entries are in the words of this
// package; the bits of real ones differ from generation to generation and are not
// written out.
//
// A table keeps runs of pages, not entries: mapping 80 GiB is one run. The tables
// that a radix walk reads exist in so far as they are walked.
//
// Frames are whatever the caller maps to. Which machine has which table, who fills
// it and what a step costs is not known here.
package mmu
