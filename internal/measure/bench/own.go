package bench

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/measure/runner"
	"github.com/ferrygpu/ferry/ptx"
)

// Signature is what the parameters of an own kernel must be.
const Signature = "(const float *a, const float *b, float *c, uint64_t n)"

// ownBlock is the number of threads of a block of an own kernel.
const ownBlock = 256

// OwnKernel is a kernel of the [Signature] that takes the place of the vector addition.
// [ReadKernel] makes it.
type OwnKernel struct {
	File string `json:"file"`
	Name string `json:"name"` // in the PTX

	image  []byte
	narrow bool // n has 4 bytes
}

// ReadKernel reads a kernel of a PTX file, and checks that its parameters are those of
// [Signature]. n may also have 32 bits. The name may be that in the source.
func ReadKernel(file, name string) (*OwnKernel, error) {
	text, err := inputfile.Read(file, inputfile.Source)
	if err != nil {
		return nil, err
	}
	m, err := ptx.Parse(file, string(text))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range m.Entries() {
		names = append(names, f.Name)
	}
	found, err := runner.FindKernel(names, name)
	if err != nil {
		return nil, fmt.Errorf("kernel %q is not in %s, %w", name, file, err)
	}
	k := &OwnKernel{File: file, Name: found, image: text}
	for _, f := range m.Entries() {
		if f.Name == found {
			err = k.check(f)
		}
	}
	return k, err
}

// check checks the parameters of a kernel.
func (k *OwnKernel) check(f *ptx.Func) error {
	params, _ := f.ParamLayout()
	fits := len(params) == 4
	for i, p := range params {
		scalar := p.Size == p.Type.Size() && !p.Type.IsFloat()
		fits = fits && scalar && (p.Size == 8 || i == 3 && p.Size == 4)
	}
	if !fits {
		return fmt.Errorf("kernel %s of %s has the parameters (%s): compare launches %s", k.Name, k.File, paramsText(params), Signature)
	}
	k.narrow = params[3].Size == 4
	return nil
}

// paramsText lists parameters: ".u64 a, .f32 b".
func paramsText(params []ptx.Param) string {
	var all []string
	for _, p := range params {
		text := fmt.Sprintf(".%s %s", p.Type, p.Name)
		if p.Size != p.Type.Size() {
			text += fmt.Sprintf("[%d bytes]", p.Size)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// useOwn gives each element a thread, and compares results with those of the kernel on
// device memory, because what it computes is not known.
func (l *lab) useOwn() error {
	blocks := (l.n + ownBlock - 1) / ownBlock
	most, err := l.g.Attribute(cu.DeviceAttributeMaxGridDimX)
	if err != nil {
		return err
	}
	if blocks > most {
		return fmt.Errorf("kernel %s needs %d blocks of %d threads, one thread for each of %d elements: the device takes %d blocks; give a smaller --max", l.own.Name, blocks, ownBlock, l.n, most)
	}
	l.config = ferry.Cover(l.n, ownBlock)
	host, err := allocate(l, func() (*ferry.Host[float32], error) { return ferry.AllocHost[float32](l.g, l.n, nil) })
	if err != nil {
		return err
	}
	device, err := allocate(l, func() (*ferry.Device[float32], error) { return ferry.Alloc[float32](l.g, l.n) })
	if err != nil {
		return err
	}
	ready := uint32(0) // the seed for which host.c has the results
	l.verify = func(ctx context.Context, c []float32, seed uint32) error {
		if seed != ready || seed == 0 {
			if err := l.reference(ctx, host, device, seed); err != nil {
				return fmt.Errorf("run %s on device memory: %w", l.own.Name, err)
			}
			ready = seed
		}
		return l.own.verify(c, host.c.ReadSlice())
	}
	return nil
}

// reference runs the kernel on device memory, with the inputs of a seed.
func (l *lab) reference(ctx context.Context, host vectors[*ferry.Host[float32]], device vectors[*ferry.Device[float32]], seed uint32) error {
	writeInputs(host.a.Slice(), host.b.Slice(), seed)
	for _, err := range []error{
		ferry.Copy(l.stream, device.a, host.a), ferry.Copy(l.stream, device.b, host.b),
		ferry.Fill(l.stream, device.c, poisonValue()),
		l.launch(device.a, device.b, device.c),
		ferry.Copy(l.stream, host.c, device.c),
	} {
		if err != nil {
			return err
		}
	}
	return l.stream.Wait(ctx)
}

// verify compares results with those of the kernel on device memory, bit by bit.
func (k *OwnKernel) verify(c, want []float32) error {
	wrong, first, written := 0, 0, false
	for i, w := range want {
		bits := math.Float32bits(w)
		written = written || bits != poisonBits
		if math.Float32bits(c[i]) == bits {
			continue
		}
		if wrong == 0 {
			first = i
		}
		wrong++
	}
	switch {
	case !written:
		return fmt.Errorf("kernel %s wrote no element of c", k.Name)
	case wrong > 0:
		return fmt.Errorf("%d of %d results of %s differ from those on device memory; the first, c[%d], is %g, not %g", wrong, len(c), k.Name, first, c[first], want[first])
	}
	return nil
}
