package hint

import (
	"bytes"
	"os"
	"testing"
)

// TestSay: a hint is said once, and not at all when it is silenced.
func TestSay(t *testing.T) {
	var b bytes.Buffer
	out = &b
	t.Cleanup(func() { out = os.Stderr; said.Clear() })
	Say("a", "%d is said", 1)
	Say("a", "%d is said", 2)
	Say("b", "b is said")
	Silence("c")
	Say("c", "c is said")
	t.Setenv(QuietVariable, "1")
	Say("d", "d is said")
	if got, want := b.String(), "ferry: 1 is said\nferry: b is said\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}
