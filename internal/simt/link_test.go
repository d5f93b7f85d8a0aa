package simt

import "testing"

// TestCorpusIsSupported links every kernel that the compilers wrote.
func TestCorpusIsSupported(t *testing.T) {
	for _, file := range corpora {
		m := loadFile(t, newSpace(), file)
		if len(m.kernels) < 29 {
			t.Errorf("%s: got %d kernels, want 29", file, len(m.kernels))
		}
		for name, k := range m.kernels {
			if k.Unsupported != nil {
				t.Errorf("%s: %s: %v", file, name, k.Unsupported)
			}
		}
	}
}
