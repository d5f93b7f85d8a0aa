package compile_test

import (
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestHeap runs kernels that use malloc, free, new, delete and virtual functions.
func TestHeap(t *testing.T) {
	r := compiled(t, "testdata/heap.cu", nil)
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	m, err := ferry.Load(g, r.PTX, nil)
	if err != nil {
		t.Fatal(err)
	}
	const threads, n = 70, 9
	for name, want := range map[string]func(i int32) int32{
		"lists": func(i int32) int32 { return i * n * (n - 1) / 2 },
		"objects": func(i int32) int32 {
			if i&1 == 1 {
				return 1 + n*(n-1)/2
			}
			return i*i + n*(n-1)/2
		},
	} {
		k, err := m.Kernel(name)
		if err != nil {
			t.Fatal(err)
		}
		out, err := ferry.Upload(g, make([]int32, threads))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.DefaultStream().Launch(k, ferry.Cover(threads, threads), out, int32(n)); err != nil {
			t.Fatal(err)
		}
		got, err := ferry.Download(out)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != want(int32(i)) {
				t.Errorf("%s: thread %d: got %d, want %d", name, i, got[i], want(int32(i)))
			}
		}
	}
}
