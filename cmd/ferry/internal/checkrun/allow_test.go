package checkrun

import "testing"

// TestAllowed: a line allows findings that have its text, with anything in the place of " ... ".
func TestAllowed(t *testing.T) {
	const text = "race in kernel k: 4 bytes\n  launched at a_test.go:7\n"
	for line, want := range map[string]bool{
		"race in kernel": true, "a_test.go:7": true, "b_test.go": false,
		"race in kernel k: ... launched at a_test.go:": true, "race ... bytes ... a_test.go": true,
		"race in kernel k: ... launched at b_test.go:": false, "uninitialized ... a_test.go": false,
		"a_test.go ... race": false,
	} {
		if got := allowed(text, []string{"absent", line}); got != want {
			t.Errorf("%q: %t, want %t", line, got, want)
		}
	}
}
