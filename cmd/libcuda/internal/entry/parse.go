package entry

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/fatbin"
	"github.com/ferrygpu/ferry/ptx"
)

// anyArch is newer than every architecture, so that the newest PTX of a fatbin is chosen.
const anyArch = 1 << 10

// parse returns the PTX of an image.
func parse(image []byte) (*ptx.Module, error) {
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
	m, err := ptx.Parse("module", string(bytes.TrimRight(text, "\x00")))
	if err != nil {
		return nil, errors.Join(err, cu.ErrorInvalidPTX)
	}
	return m, nil
}

// knowsParameters is the version of CUDA with cuFuncGetParamInfo.
const knowsParameters = 12040

// images has the code of modules, where the driver is too old to say what parameters a function has.
var images sync.Map // cu.Module -> func() (*ptx.Module, error)

// keep keeps the code of a module if it is needed later.
func keep(d cu.Driver, module cu.Module, code []byte) {
	if version, err := d.DriverGetVersion(); err == nil && version >= knowsParameters {
		return
	}
	code = slices.Clone(code)
	images.Store(module, sync.OnceValues(func() (*ptx.Module, error) { return parse(code) }))
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
	m, err := code.(func() (*ptx.Module, error))()
	if err != nil {
		return nil, false
	}
	f := m.Func(x.(function).name)
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
