// Package mmu has page tables that can be inspected: those of a CPU, of NVIDIA's
// devices and of an IOMMU, at the level of a textbook.
//
// A [Format] says how an address is divided into the indices of radix levels. It also
// says at which levels an entry may be a page. [Table.Map] fills a table, and
// [Table.Walk] walks it. Walk returns the entry read at each level, down to the page or to the level
// where nothing is mapped. Entries are described by this package's types; the bits of
// real entries differ from generation to generation and are not modelled.
//
// A table stores runs of pages, not entries: mapping 80 GiB is one run. A walk
// computes the entries that it reads.
//
// A frame is a physical page frame; [Frames] allocates them. The package does not
// know which machine has which table, nor the cost of a step.
package mmu
