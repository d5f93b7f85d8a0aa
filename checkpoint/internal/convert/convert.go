package convert

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ferrybind"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Kernels has the kernels of this package, loaded on a GPU. [Load] makes it. It is safe for
// concurrent use.
type Kernels struct {
	module  *ferry.Module
	convert map[Pair]*ferry.Kernel
	hash    *ferry.Kernel
	blocks  int // that keep the GPU busy
}

// Pair is a conversion: from one kind to another.
type Pair struct{ From, To Kind }

// String returns "BF16 to F16".
func (p Pair) String() string { return fmt.Sprintf("%v to %v", p.From, p.To) }

// blocksPerProcessor is how many blocks a multiprocessor runs at once: 2048 threads.
const blocksPerProcessor = 2048 / threads

// Load loads the kernels of these pairs on a GPU, and the kernel that hashes. The driver compiles only
// what is asked for. Close unloads them.
func Load(g *ferry.GPU, pairs ...Pair) (*Kernels, error) {
	names := []string{"hash"}
	for _, p := range pairs {
		if !Supported(p.From, p.To) {
			return nil, refusal.Invalid("load the kernel that converts %v: there is none", p)
		}
		if !slices.Contains(names, p.kernel()) {
			names = append(names, p.kernel())
		}
	}
	m, err := ferry.Load(g, image(names), nil)
	if err != nil {
		return nil, fmt.Errorf("load the kernels that convert: %w", err)
	}
	k := &Kernels{module: m, convert: make(map[Pair]*ferry.Kernel)}
	if err := k.find(g, pairs); err != nil {
		return nil, refusal.Join(fmt.Errorf("load the kernels that convert: %w", err), m.Close())
	}
	return k, nil
}

// find finds the kernels in the module.
func (k *Kernels) find(g *ferry.GPU, pairs []Pair) error {
	processors, err := g.Attribute(cu.DeviceAttributeMultiprocessorCount)
	if err != nil {
		return err
	}
	k.blocks = processors * blocksPerProcessor
	k.hash, err = ferrybind.Kernel(k.module, "hash",
		ferrybind.Param{Name: "sums", Type: "uint64_t *", Size: 8},
		ferrybind.Param{Name: "src", Type: "const uint8_t *", Size: 8, Reads: true},
		ferrybind.Param{Name: "r", Type: "Ranges", Size: rangesBytes},
	)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		k.convert[p], err = ferrybind.Kernel(k.module, p.kernel(),
			ferrybind.Param{Name: "dst", Type: "uint8_t *", Size: 8},
			ferrybind.Param{Name: "src", Type: "const uint8_t *", Size: 8, Reads: true},
			ferrybind.Param{Name: "p", Type: "Pieces", Size: piecesBytes},
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// Close unloads the kernels when those in flight are done: see [ferry.Module.Close].
func (k *Kernels) Close() error {
	if k == nil {
		return nil
	}
	return k.module.Close()
}
