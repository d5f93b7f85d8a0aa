package secureenv

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestVector: the kernel's word decides. Without it the numbers of the user do.
func TestVector(t *testing.T) {
	for _, c := range []struct {
		vector [][2]uintptr
		want   bool
	}{
		{[][2]uintptr{{6, 4096}, {atSecureKey, 1}, {31, 7}}, true},
		{[][2]uintptr{{6, 1}, {atSecureKey, 0}, {31, 1}}, false},
		{[][2]uintptr{{6, 4096}}, differ()},
		{nil, differ()},
	} {
		if got := secureIn(c.vector); got != c.want {
			t.Errorf("%v: %t", c.vector, got)
		}
	}
	vector, err := unix.Auxv()
	if err != nil {
		t.Fatal(err)
	}
	has := false
	for _, entry := range vector {
		has = has || entry[0] == atSecureKey
	}
	if !has {
		t.Error("the vector of this process has no AT_SECURE")
	}
}
