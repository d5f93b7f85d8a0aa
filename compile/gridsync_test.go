package compile_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestGridSync runs a kernel with cooperative_groups::this_grid().sync(), compiled by nvcc
// and by the compiler of this machine, in grids of several shapes.
func TestGridSync(t *testing.T) {
	t.Run("nvcc", func(t *testing.T) {
		ptx, err := os.ReadFile("testdata/gridsum_nvcc.ptx")
		if err != nil {
			t.Fatal(err)
		}
		checkGridSum(t, ptx)
	})
	t.Run("compiled", func(t *testing.T) {
		checkGridSum(t, compiled(t, "testdata/gridsum.cu", nil).PTX)
	})
}

func checkGridSum(t *testing.T, ptx []byte) {
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	m, err := ferry.Load(g, ptx, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("gridsum")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []ferry.LaunchConfig{ferry.Cover(64, 32), ferry.Cover(256, 64), ferry.Cover(33*96, 96), ferry.Cover(200*128, 128), ferry.Cover(1024, 1024)} {
		c.Cooperative = true
		gridSum(t, g, k, c)
	}
}

// gridSum launches the kernel twice: the second launch finds the barrier used.
func gridSum(t *testing.T, g *ferry.GPU, k *ferry.Kernel, c ferry.LaunchConfig) {
	t.Helper()
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		in, sum := make([]int32, 5000), int32(0)
		for i := range in {
			in[i] = rand.Int32N(1000)
			sum += in[i]
		}
		blocks := int(c.Grid.X)
		inputs, err1 := ferry.Upload(g, in)
		out, err2 := ferry.Upload(g, make([]int32, blocks+1))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if err := s.Launch(k, c, inputs, out, out.Range(blocks, blocks+1), int32(len(in))); err != nil {
			t.Fatal(err)
		}
		got, err := ferry.Download(out)
		if err != nil {
			t.Fatal(err)
		}
		if want := slices.Repeat([]int32{sum}, blocks+1); !slices.Equal(got, want) {
			t.Errorf("%d blocks: got %v, want %d in each", blocks, got, sum)
		}
		inputs.Close()
		out.Close()
	}
}
