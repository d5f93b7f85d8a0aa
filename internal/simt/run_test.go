package simt

import "testing"

func TestAddOneEach(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 10007
		a, b := make([]float32, n), make([]float32, n)
		for i := range a {
			a[i], b[i] = float32(i)*0.5, float32(n-i)*3
		}
		x, y, z := put(m.mem, a), put(m.mem, b), put(m.mem, make([]float32, n))
		s := mustRun(t, m.launch(t, "add_one_each", (n+255)/256, 256, x, y, z, n))
		for i, got := range valuesOf[float32](z.Data) {
			if want := a[i] + b[i]; got != want {
				t.Fatalf("element %d: got %v, want %v", i, got, want)
			}
		}
		if s.Blocks != 40 || s.Threads != 40*256 {
			t.Errorf("got %d blocks and %d threads", s.Blocks, s.Threads)
		}
		tr := s.Traffic[0]
		if tr.ReadBytes != 8*n || tr.WriteBytes != 4*n {
			t.Errorf("got %d bytes read and %d written", tr.ReadBytes, tr.WriteBytes)
		}
	})
}
