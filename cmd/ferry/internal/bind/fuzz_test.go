package bind

import (
	"os"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// FuzzStamp reads what generated Go files record of their origin.
func FuzzStamp(f *testing.F) {
	code, err := os.ReadFile("bindtest/kernels_cu.go")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(code)
	f.Add([]byte(stampMark + `version "2"` + "\n" + stampMark + `kernel "a" "b"` + "\n" + stampMark + `source "x"`))
	f.Fuzz(func(t *testing.T, code []byte) {
		hostile.Check(t, "stamp", func() {
			if s, ok := readStamp(code); s == nil || ok != (s.version != 0) {
				t.Errorf("%+v, %t", s, ok)
			}
			rest, _ := unseal(code)
			hash(rest)
		})
	})
}
