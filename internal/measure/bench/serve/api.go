package serve

import (
	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
)

// pinnedPool is a pool of page-locked memory.
type pinnedPool = ferry.PinnedPool

func newPool(g *ferry.GPU) (*pinnedPool, error) { return ferry.NewPinnedPool(g, nil) }

func newStream(g *ferry.GPU) (*ferry.Stream, error) {
	return ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})
}

func saveCPU(g *ferry.GPU, save bool) error { return g.SetSaveCPU(save) }

func load(g *ferry.GPU) (*ferry.Module, error) { return ferry.Load(g, []byte(kernels.PTX), nil) }

func pageable(s []float32) ferry.Memory[float32] { return ferry.Pageable(s) }
