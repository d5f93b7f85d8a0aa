package inflight

import "testing"

// TestKept: a value is kept until its operation is done, and dropped then.
func TestKept(t *testing.T) {
	var k Kept
	s := newTestStream(nil)
	add := func(value string) {
		var op Op
		defer op.End()
		if !op.Begin(&s.Stream) {
			t.Fatal("the stream is closed")
		}
		k.Add(&op, Read, value)
		op.Queued()
	}
	holds := func(want ...string) {
		t.Helper()
		var got []string
		for _, x := range k.all {
			got = append(got, x.value.(string))
		}
		if len(got) != len(want) || k.some.Load() != (len(want) > 0) {
			t.Fatalf("%q are kept, want %q", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%q are kept, want %q", got, want)
			}
		}
	}
	k.Drop()
	holds()
	add("a")
	add("b")
	k.Drop()
	holds("a", "b")
	s.Complete(1)
	k.Drop()
	holds("b")
	s.Complete(2)
	add("c")
	k.Drop()
	holds("c")
	s.Complete(3)
	k.Drop()
	holds()
}
