// Package accesspath finds the way of one access to memory: through page tables, over the link and to bytes.
//
// [Frames.Walk] takes a [Machine] with all memory that a context knows, and an [Access]. It returns a [Walk]
// with every table entry that is read, the cost of each step by the profile, and the reason if the access
// fails. It changes no memory. Only the physical frames stay from one walk to the next.
//
// The formats of page tables are those of package mmu, the places of managed pages those of package uvm. What
// memory there is, who may access it and how a walk is printed, package softgpu knows.
//
//	access.go  what is asked, and the answer
//	path.go    the ways of kernels, copy engines and the CPU, with faults
//	tables.go  page tables, and frames of physical memory
package accesspath
