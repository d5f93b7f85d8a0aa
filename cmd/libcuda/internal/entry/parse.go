package entry

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/fatbin"
	"github.com/ferrygpu/ferry/internal/linkimage"
	"github.com/ferrygpu/ferry/ptx"
)

// anyArch is newer than every architecture, so that the newest PTX of a fatbin is chosen.
const anyArch = 1 << 10

// parse returns the PTX of an image: several modules if a linker made it.
func parse(image []byte) (modules []*ptx.Module, err error) {
	if !linkimage.Is(image) {
		m, err := parseOne("module", image)
		return []*ptx.Module{m}, err
	}
	im, ok := linkimage.Decode(image)
	if !ok {
		return nil, cu.ErrorInvalidImage
	}
	for _, in := range im.Inputs {
		m, err := parseOne(in.Name, in.Text)
		if err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	return modules, nil
}

func parseOne(name string, image []byte) (*ptx.Module, error) {
	text := image
	if fatbin.Is(image) {
		entry, err := fatbin.Choose(image, anyArch)
		if err != nil {
			return nil, errors.Join(err, cu.ErrorNoBinaryForGPU)
		}
		if text, err = entry.Data(); err != nil {
			return nil, errors.Join(err, cu.ErrorInvalidImage)
		}
	}
	m, err := ptx.Parse(name, string(bytes.TrimRight(text, "\x00")))
	if err != nil {
		return nil, errors.Join(err, cu.ErrorInvalidPTX)
	}
	return m, nil
}

// knowsParameters is the version of CUDA with cuFuncGetParamInfo.
const knowsParameters = 12040

// images has the code of modules, where the driver is too old to say what parameters a function has.
var images sync.Map // cu.Module -> func() ([]*ptx.Module, error)

// keep keeps the code of a module if it is needed later.
func keep(d cu.Driver, module cu.Module, code []byte) {
	if version, err := d.DriverGetVersion(); err == nil && version >= knowsParameters {
		return
	}
	code = slices.Clone(code)
	images.Store(module, sync.OnceValues(func() ([]*ptx.Module, error) { return parse(code) }))
}

// parsedLayout returns the layout of a function's parameters as its PTX has it.
func parsedLayout(fn cu.Function) (*layout, bool) {
	x, ok := functions.Load(fn)
	if !ok {
		return nil, false
	}
	code, ok := images.Load(x.(function).module)
	if !ok {
		return nil, false
	}
	modules, err := code.(func() ([]*ptx.Module, error))()
	if err != nil {
		return nil, false
	}
	f := entryNamed(modules, x.(function).name)
	if f == nil {
		return nil, false
	}
	params, bytes := f.ParamLayout()
	l := &layout{bytes: uintptr(bytes)}
	for _, p := range params {
		l.params = append(l.params, parameter{uintptr(p.Offset), uintptr(p.Size)})
	}
	return l, true
}

// entryNamed returns the kernel with a name. Other inputs of a linker may declare it.
func entryNamed(modules []*ptx.Module, name string) *ptx.Func {
	for _, m := range modules {
		for _, e := range m.Entries() {
			if e.Name == name {
				return e
			}
		}
	}
	return nil
}
