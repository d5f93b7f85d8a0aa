package hostmap

import (
	"os"
	"strings"
	"testing"
)

func TestParseMapping(t *testing.T) {
	for _, c := range []struct {
		line string
		want mapping
		ok   bool
	}{
		{"7f0000000000-7f0000021000 rw-s 00000000 08:01 1234   /srv/some data\n", mapping{0x7f0000000000, 0x7f0000021000, "rw-s", "/srv/some data"}, true},
		{"00400000-00452000 r-xp 00000000 00:00 0\n", mapping{0x400000, 0x452000, "r-xp", ""}, true},
		{"00400000-00452000 r-xp 00000000 00:00\n", mapping{}, false},
		{"00400000 r-xp 00000000 00:00 0\n", mapping{}, false},
		{"00400000-x r-xp 00000000 00:00 0\n", mapping{}, false},
		{"00400000-00452000 r-x 00000000 00:00 0\n", mapping{}, false},
		{"", mapping{}, false},
	} {
		got, ok := parseMapping(c.line)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %+v, %v; want %+v, %v", c.line, got, ok, c.want, c.ok)
		}
	}
}

func TestMappingHint(t *testing.T) {
	for _, c := range []struct {
		perms, path string
		readOnly    bool
		want        string
	}{
		{"rw-p", "", false, ""},
		{"rw-p", "/srv/data", false, ""},
		{"r--p", "", true, ""},
		{"r--p", "", false, "register it with ReadOnly"},
		{"---p", "", true, "neither read nor written (PROT_NONE): allow both first, with mprotect"},
		{"---p", "", false, "neither read nor written (PROT_NONE): allow both first, with mprotect"},
		{"-w-p", "", false, ""},
		{"-w-p", "", true, "without ReadOnly"},
		{"rw-s", "/srv/data", false, "/srv/data, mapped writable and shared"},
		{"rw-s", "/srv/data", true, "/srv/data, mapped writable and shared"},
		{"r--s", "/srv/data", true, ""},
		{"rw-s", "/dev/shm/x", false, ""},
		{"rw-s", "/memfd:x", false, ""},
		{"rw-s", "", false, ""},
	} {
		m := mapping{perms: c.perms, path: c.path}
		if got := m.hint(c.readOnly); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %q, read-only %v: %q, want %q", c.perms, c.path, c.readOnly, got, c.want)
		}
	}
}

// TestHint asks about memory of this process.
func TestHint(t *testing.T) {
	if _, err := os.Stat("/proc/self/maps"); err != nil {
		t.Skip(err)
	}
	if got := Hint(0, 1<<12, true); !strings.Contains(got, "there is no memory at 0x0") {
		t.Errorf("the null page: %q", got)
	}
	const top = 1<<64 - 1<<12
	if got := Hint(top, top+100, true); got == "" {
		t.Error("the last page: no hint")
	}
}
