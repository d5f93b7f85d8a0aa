package inflight

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Kept keeps values from the garbage collector while operations use them. The zero value is
// ready. It is safe for concurrent use.
type Kept struct {
	some atomic.Bool // there may be one
	mu   sync.Mutex
	all  []*keptValue
}

// keptValue is a value that an operation uses.
type keptValue struct {
	use   Tracker
	value any
}

// Add keeps a value until op is done. It also drops those whose operations are done.
func (k *Kept) Add(op *Op, access Access, value any) {
	x := &keptValue{value: value}
	x.use.Init()
	op.Acquire(&x.use, access, 0)
	x.use.Close() // nobody else begins a use
	k.Drop()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, x)
	k.some.Store(true)
}

// Drop drops the values whose operations are done.
func (k *Kept) Drop() {
	if !k.some.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, (*keptValue).done)
	k.some.Store(len(k.all) > 0)
}

// done reports whether the operation is done.
func (x *keptValue) done() bool {
	if !x.use.Drained() {
		return false
	}
	for range x.use.Pending(Write) {
		return false
	}
	return true
}
