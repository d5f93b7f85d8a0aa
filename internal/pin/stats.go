package pin

import "time"

// Stats is what a pool has and has done. Bytes are those of blocks, which are larger than
// what was asked for.
type Stats struct {
	Used       uintptr // by blocks that were got and not put
	InFlight   uintptr // by blocks that were put in flight
	Pinned     uintptr // from the source
	MostPinned uintptr
	Hits       uint64        // blocks that were found in a cache
	Calls      int           // of the source: segments taken and given back
	Driver     time.Duration // in those calls
	Sites      []Site        // for which the source gave what the pool has now, the largest first
}

// Site is a place in a program and the bytes that were pinned for it.
type Site struct {
	Place string
	Bytes uintptr
}
