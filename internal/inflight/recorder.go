package inflight

import (
	"errors"
	"sync"
)

// Recorder collects the resources that a captured graph will use, and owns them for
// the graph. Streams that record share one.
type Recorder struct {
	mu   sync.Mutex
	uses map[*Tracker]Access
}

// GraphUse is a resource that a graph uses and owns.
type GraphUse struct {
	Tracker *Tracker
	Access  Access
}

// add records a use. The first use of a resource owns it.
func (r *Recorder) add(t *Tracker, a Access) {
	r.mu.Lock()
	old, known := r.uses[t]
	if r.uses == nil {
		r.uses = map[*Tracker]Access{}
	}
	r.uses[t] = max(old, a)
	r.mu.Unlock()
	if !known {
		t.Own()
	}
}

// Uses returns the resources that were collected, and empties the Recorder. The caller must
// disown them.
func (r *Recorder) Uses() []GraphUse {
	r.mu.Lock()
	defer r.mu.Unlock()
	uses := make([]GraphUse, 0, len(r.uses))
	for t, a := range r.uses {
		uses = append(uses, GraphUse{t, a})
	}
	r.uses = nil
	return uses
}

// DisownAll ends the ownership of all that a graph used. A task of [Tracker.AfterOwners] may run
// code of the program: if that panics or ends the goroutine, the rest is disowned, too.
func DisownAll(uses []GraphUse) error {
	var all []error
	defer func() {
		if len(all) < len(uses) {
			_ = DisownAll(uses[len(all)+1:])
		}
	}()
	for _, u := range uses {
		all = append(all, u.Tracker.Disown())
	}
	return errors.Join(all...)
}
