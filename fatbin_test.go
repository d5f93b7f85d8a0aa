package ferry_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

func fatbinOfNVCC(t *testing.T, name string) []byte {
	t.Helper()
	return must(os.ReadFile(filepath.Join("internal", "fatbin", "testdata", name+".fatbin")))(t)
}

// TestFatbinsOfNVCC loads fatbins of each compression and runs their kernels. The variable
// counter is 5 in each module.
func TestFatbinsOfNVCC(t *testing.T) {
	gputest.NeedsCall(t, "PTX 9.0", 13000)
	g := openTest(t)
	for _, name := range []string{"none", "default", "speed", "size", "all"} {
		t.Run(name, func(t *testing.T) {
			m := must(ferry.Load(g, fatbinOfNVCC(t, name), nil))(t)
			s := must(ferry.NewStream(g, nil))(t)
			defer closeAll(t, s, m)
			runSaxpy(t, g, s, m)
			runFill(t, g, s, m)
		})
	}
}

func runSaxpy(t *testing.T, g *ferry.GPU, s *ferry.Stream, m *ferry.Module) {
	const n = 1000
	a, x, want := rand.Float32(), make([]float32, n), make([]float32, n+1)
	for i := range want {
		want[i] = float32(rand.IntN(1000))
	}
	out := must(ferry.Upload(g, want))(t)
	for i := range x {
		x[i] = float32(rand.IntN(1000))
		want[i] = float32(float64(a)*float64(x[i]) + float64(want[i])) // fma.rn
	}
	in := must(ferry.Upload(g, x))(t)
	defer closeAll(t, in, out)
	check(t, s.Launch(must(m.Kernel("saxpy"))(t), ferry.Grid(n, 128), int32(n), a, in, out))
	check(t, s.Wait(context.Background()))
	if got := must(ferry.Download(out))(t); !slices.Equal(got, want) {
		t.Error("saxpy has other results")
	}
}

func runFill(t *testing.T, g *ferry.GPU, s *ferry.Stream, m *ferry.Module) {
	const n = 300
	v := rand.Int32N(1 << 30)
	out := must(ferry.Upload(g, make([]int32, n+1)))(t)
	defer closeAll(t, out)
	check(t, s.Launch(must(m.Kernel("fill"))(t), ferry.Grid(n, 128), int32(n), v, out))
	check(t, s.Wait(context.Background()))
	want := append(slices.Repeat([]int32{v + 5}, n), 0)
	if got := must(ferry.Download(out))(t); !slices.Equal(got, want) {
		t.Errorf("fill has other results: %d and %d, want %d and 0", got[0], got[n], v+5)
	}
}

// TestCubinOfNVCC: a fatbin with machine code only has nothing for the software GPU.
func TestCubinOfNVCC(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	_, err := ferry.Load(g, fatbinOfNVCC(t, "cubin"), nil)
	wantError(t, err, cu.ErrorNoBinaryForGPU, "the fatbin has machine code (cubin) for sm_90, and no PTX: compile with -gencode arch=compute_80,code=compute_80")
}
