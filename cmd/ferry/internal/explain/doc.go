// Package explain shows what an access or a transfer travels through, and why transfers of
// a recording were slow. "ferry explain" prints its reports.
//
// [Topic] makes a small run on a device. On the software GPU the addresses of a path come
// from its page tables, and the costs from its profile and its timeline. On hardware the
// steps are what the system shows: pointer attributes, page maps, PCI resources, the IOMMU
// and the link. Each step says whether it was observed, predicted or is from the manual. A
// number that was not measured is marked as predicted.
//
// [Recording] finds what made the transfers of a recording slow, by line of the program.
// [Buffer] explains the memory at one address of a recording.
package explain
