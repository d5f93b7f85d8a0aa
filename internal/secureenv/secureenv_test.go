package secureenv

import "testing"

// TestGet: a privileged program sees no variable that is read here, and no device that is a
// file. Others see them.
func TestGet(t *testing.T) {
	t.Setenv("FERRY_TRACE", "/tmp/x")
	for _, c := range []struct{ value, secure string }{
		{"", ""}, {"soft:h200*2", "soft:h200*2"}, {"cuda:1", "cuda:1"},
		{"soft:mine.json", ""}, {"soft:/a/mine.json*2", ""},
	} {
		t.Setenv(DeviceVariable, c.value)
		for privileged, want := range map[bool][2]string{false: {"/tmp/x", c.value}, true: {"", c.secure}} {
			restore := Assume(privileged)
			if Privileged() != privileged || Get("FERRY_TRACE") != want[0] || Device() != want[1] {
				t.Errorf("privileged %t: %q, device %q; want %q", privileged, Get("FERRY_TRACE"), Device(), want)
			}
			restore()
		}
	}
}
