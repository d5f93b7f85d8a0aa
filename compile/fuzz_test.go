package compile

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// FuzzOptions checks options and sources. What is accepted can be given to a compiler: no
// option of its own, no line of its own.
func FuzzOptions(f *testing.F) {
	f.Add("a.cu", "__global__ void k() {}", "sm_80", "N=1", "include")
	f.Add("", "\ufeff#include <x>", "9.0a", "F(x)=x", "/usr/include")
	f.Add("-o", "x", "compute_1000", "-DX", "-I.")
	f.Add("a\nb", "\x00", "sm_", "=", "")
	f.Fuzz(func(t *testing.T, name, source, arch, define, include string) {
		hostile.Check(t, "options", func() {
			u, err := newUnit(name, []byte(source), &Options{Arch: arch, Define: []string{define}, Include: []string{include}})
			if (u == nil) == (err == nil) {
				t.Fatalf("unit %v, error %v", u, err)
			}
			if err != nil {
				return
			}
			switch {
			case strings.HasPrefix(define, "-") || strings.HasPrefix(define, "=") || strings.ContainsAny(define, "\n\x00"):
				t.Errorf("macro %q is accepted", define)
			case include == "" || strings.Contains(include, "\x00"):
				t.Errorf("directory %q is accepted", include)
			case u.name == "" || strings.ContainsAny(u.name, "\n\x00"):
				t.Errorf("name %q is accepted", u.name)
			case u.arch.number < 10:
				t.Errorf("%q is architecture %v", arch, u.arch)
			}
		})
	})
}
