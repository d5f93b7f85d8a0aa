// Package grid measures the time of single operations on a device. It measures copies by
// kind of memory, direction and size, fills, and kernels on device memory and over the
// link. It also measures launches, events, allocations, page-locking, and managed memory
// that moves. On the software GPU it returns predicted times.
//
// A [Case] is one operation at one size. Its time begins with the submission and ends when
// the host knows that it is done. Operations use the driver API directly; package bench
// measures Ferry's typed layer. If the kind says "just written", the source is written
// before every sample.
//
// The set [Patterns] has other cases: kernels by how they access memory, many small
// operations, graphs, operations that share the link, managed memory with advice. Their
// kinds belong to families. The time of most is that between two events of a stream. Half of
// them are held out ([Case.HeldOut]).
//
// [CompareFamilies] compares predictions of patterns with measurements.
// [Compare] compares predictions with measurements: the error of each kind, and the pairs of
// kinds that are predicted in the wrong order.
package grid
