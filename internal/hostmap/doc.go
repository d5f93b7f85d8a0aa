// Package hostmap records which host addresses a driver knows, and which buffers they
// belong to: memory that the driver made (page-locked or managed), and memory that was
// registered.
//
// A [Map] consists of [Entry] values that do not overlap. Memory made by the driver is one
// entry with one [Owner]. A registered buffer may have several entries, and an entry may
// have several owners. Memory that is page-locked already when a buffer is registered is
// not page-locked again. It stays page-locked until the last owner releases it. Hardware
// refuses registrations that overlap, and copies that cross from one registration to the
// next.
//
// An entry counts its owners. Which they are is found by their addresses, in one tree for all.
// So a claim looks once at each of its entries, however many owners they have.
//
// The package does not call the driver. [Map.Claim] returns what the caller must register,
// and [Map.Release] reports what it must unregister. The caller then calls [Map.Finish].
// Until then, other claims of the same addresses wait. A copy that uses addresses for which
// [Map.First] finds no buffer holds them ([Map.Hold]): they are not unregistered meanwhile.
//
// Map.mu is a leaf lock.
package hostmap
