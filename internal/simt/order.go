package simt

import "runtime"

// order makes everything before it visible before everything after it. On amd64
// loads and stores of the host are in the order that acquire and release ask for.
func (k *worker) order() {
	if runtime.GOARCH != "amd64" {
		k.fence.Add(1)
	}
}

// fullFence orders stores before later loads too.
func (k *worker) fullFence() { k.fence.Add(1) }
