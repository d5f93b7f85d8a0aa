// Package hostmap knows which host addresses a driver knows, and which buffers have
// them: memory that the driver made (page-locked or managed), and memory that was
// registered.
//
// A [Map] consists of [Entry] values that do not overlap. Memory made by the driver
// is one entry with one [Owner]. A registered buffer may have several entries, and an
// entry several owners: what was page-locked already when a buffer was registered is
// not page-locked again, and stays so until the last owner releases it. Hardware
// refuses registrations that overlap, and copies that cross from one to the next.
//
// The package calls no driver. [Map.Claim] says what must be registered and
// [Map.Release] what must be unregistered; [Map.Settle] reports that it is done.
// While that lasts, other claims of the same addresses wait.
//
// Map.mu is a leaf lock.
package hostmap
