// Package grid measures what single operations cost on a device: copies by kind
// of memory, direction and size, fills, kernels on device memory and over the
// link, launches, events, allocations, page-locking, and managed memory that
// moves. On the software GPU the same program gives the predicted times.
//
// A [Case] is one operation at one size. Its time runs from its submission until
// the host knows that it is done, through the driver API itself: what Ferry's
// typed layer does on top is measured elsewhere. Sources are written anew for
// every sample where the kind says so.
//
// [Compare] puts predictions beside measurements: the error by kind, and where
// two kinds change places.
package grid
