package check

import "testing"

// TestGaveUpNow: GaveUp has what a call gave up that has not returned yet.
func TestGaveUpNow(t *testing.T) {
	d := Wrap(&scripted{}, Options{})
	d.mu.Lock()
	d.gaveUp(gaveUpSources, 2)
	d.mu.Unlock()
	if list := d.GaveUp(); len(list) != 1 || list[0].What != gaveUpSources || list[0].Count != 2 {
		t.Errorf("gave up %v", list)
	}
}
