package trace

import (
	"slices"
	"sync"
)

// Kinds of memory in a recording.
const (
	device     = "device"
	pageLocked = "page-locked" // of cuMemHostAlloc, and of ferry.AllocHost
	registered = "registered"  // of the program, as by ferry.Register
	managed    = "managed"
	pageable   = "pageable"
)

// ranges has the kind of memory of each address range that the driver knows.
type ranges struct {
	mu  sync.RWMutex
	all []addressRange // by base, without overlaps
}

// addressRange is memory of one kind.
type addressRange struct {
	base, end uint64
	kind      string
}

// add adds a range. It replaces ranges that it overlaps, which were freed unseen.
func (r *ranges) add(base, bytes uint64, kind string) {
	if base == 0 || bytes == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.after(base)
	last := first
	for last < len(r.all) && r.all[last].base < base+bytes {
		last++
	}
	r.all = slices.Replace(r.all, first, last, addressRange{base, base + bytes, kind})
}

// remove removes the range that begins at base.
func (r *ranges) remove(base uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.after(base); i < len(r.all) && r.all[i].base == base {
		r.all = slices.Delete(r.all, i, i+1)
	}
}

// removeAll removes the ranges that begin among some addresses.
func (r *ranges) removeAll(base, bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(x addressRange) bool { return x.base-base < bytes })
}

// forget removes the range that has an address.
func (r *ranges) forget(at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.after(at); i < len(r.all) && r.all[i].base <= at {
		r.all = slices.Delete(r.all, i, i+1)
	}
}

// kind returns the kind of memory at an address, or unknown.
func (r *ranges) kind(at uint64, unknown string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if i := r.after(at); i < len(r.all) && r.all[i].base <= at {
		return r.all[i].kind
	}
	return unknown
}

// after returns the index of the first range that ends after an address.
func (r *ranges) after(at uint64) int {
	i, _ := slices.BinarySearchFunc(r.all, at, func(s addressRange, at uint64) int {
		if s.end <= at {
			return -1
		}
		return 1
	})
	return i
}
