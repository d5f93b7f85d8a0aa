package cutest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ferrygpu/ferry/cu"
)

// program is the suite's module in one context.
type program struct {
	module  cu.Module
	kernels map[string]cu.Function
}

// load compiles the suite's kernels in a context and launches each once. Then their
// code is loaded, which in a case could wait for running kernels.
func (s *suite) load(ctx cu.Context) (*program, error) {
	if p, ok := s.programs[ctx]; ok {
		return p, nil
	}
	m, err := s.d.ModuleLoadData(ctx, []byte(suitePTX))
	if err != nil {
		return nil, fmt.Errorf("load the suite's module: %+v", err)
	}
	p := &program{m, map[string]cu.Function{}}
	for _, k := range suiteKernels {
		f, err := s.d.ModuleGetFunction(ctx, m, k.name)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", k.name, err)
		}
		p.kernels[k.name] = f
		one := cu.Dim3{X: 1, Y: 1, Z: 1}
		if err := s.d.LaunchKernel(ctx, f, one, cu.Dim3{X: k.block, Y: 1, Z: 1}, 0, 0, make([]byte, k.bytes)); err != nil {
			return nil, fmt.Errorf("launch %s with zeroes: %w", k.name, err)
		}
	}
	if err := s.d.CtxSynchronize(ctx); err != nil {
		return nil, fmt.Errorf("kernels with zero parameters: %w", err)
	}
	s.programs[ctx] = p
	return p, nil
}

// kernel returns a kernel of the suite in the case's context.
func (c *trial) kernel(name string) cu.Function { return c.kernelIn(c.ctx, name) }

func (c *trial) kernelIn(ctx cu.Context, name string) cu.Function {
	p, err := c.suite.load(ctx)
	c.ok(err, "kernels")
	f, ok := p.kernels[name]
	if !ok {
		c.fatal("BUG: no kernel %q in the suite", name)
	}
	return f
}

// pack makes the parameter buffer of a launch, with each argument at a multiple of its
// size.
func pack(args ...any) []byte {
	var b []byte
	align := func(n int) {
		for len(b)%n != 0 {
			b = append(b, 0)
		}
	}
	for _, a := range args {
		switch v := a.(type) {
		case uint8:
			b = append(b, v)
		case uint16:
			align(2)
			b = binary.LittleEndian.AppendUint16(b, v)
		case uint32:
			align(4)
			b = binary.LittleEndian.AppendUint32(b, v)
		case float32:
			align(4)
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		case uint64:
			align(8)
			b = binary.LittleEndian.AppendUint64(b, v)
		case cu.DevicePtr:
			align(8)
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		default:
			panic(fmt.Sprintf("BUG: kernel argument of type %T", a))
		}
	}
	return b
}

func dim(sizes ...uint32) cu.Dim3 {
	d := [3]uint32{1, 1, 1}
	copy(d[:], sizes)
	return cu.Dim3{X: d[0], Y: d[1], Z: d[2]}
}

// tryLaunch launches a kernel over n threads in blocks of at most 256.
func (c *trial) tryLaunch(ctx cu.Context, stream cu.Stream, name string, n int, args ...any) error {
	f := c.kernelIn(ctx, name)
	block := min(n, 256)
	grid := (n + block - 1) / block
	return c.d.LaunchKernel(ctx, f, dim(uint32(grid)), dim(uint32(block)), 0, stream, pack(args...))
}

func (c *trial) launch(stream cu.Stream, name string, n int, args ...any) {
	c.ok(c.tryLaunch(c.ctx, stream, name, n, args...), "launch "+name)
}

// words returns numbers as little-endian bytes.
func words(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// repeated returns n copies of the word v.
func repeated(v uint32, n int) []byte {
	b := make([]byte, 0, 4*n)
	for range n {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func word(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// plus returns the words of b with v added to each.
func plus(b []byte, v uint32) []byte {
	out := make([]byte, len(b))
	for i := range len(b) / 4 {
		binary.LittleEndian.PutUint32(out[4*i:], word(b, i)+v)
	}
	return out
}
