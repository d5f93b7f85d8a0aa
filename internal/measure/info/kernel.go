package info

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/ptx"
)

// KernelSchema is the version of the document that [KernelReport.JSON] returns.
const KernelSchema = "ferry.kernel/1"

// KernelReport describes the kernels of a module on a device. Its fields are those of the
// JSON document.
type KernelReport struct {
	Schema  string   `json:"schema"`
	Device  Device   `json:"device"`
	File    string   `json:"file"`
	Kernels []Kernel `json:"kernels"`
}

// Kernel describes one kernel. Sizes are in bytes.
type Kernel struct {
	Name       string      `json:"name"`
	Parameters []Parameter `json:"parameters"`

	// Estimated says that Registers and Occupancy are estimates, from the PTX and the
	// profile of the device.
	Estimated     bool `json:"estimated"`
	Registers     int  `json:"registers"` // per thread
	StaticShared  int  `json:"static_shared_bytes"`
	DynamicShared int  `json:"max_dynamic_shared_bytes"`
	Local         int  `json:"local_bytes"` // per thread
	Constant      int  `json:"constant_bytes"`
	MaxThreads    int  `json:"max_threads_per_block"`
	PTXVersion    int  `json:"ptx_version"`
	BinaryVersion int  `json:"binary_version"`
	CacheGlobal   bool `json:"caches_global_memory"`

	Occupancy Occupancy `json:"occupancy"`
}

// Parameter is a parameter of a kernel.
type Parameter struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Size   int    `json:"size_bytes"`
}

// Occupancy says how well the kernel fills the device with the suggested block size.
type Occupancy struct {
	Block    int     `json:"suggested_block_threads"`
	Grid     int     `json:"blocks_that_fill_the_device"`
	Blocks   int     `json:"active_blocks_per_multiprocessor"`
	Fraction float64 `json:"fraction"` // of the threads that a multiprocessor holds
}

// AboutKernels loads a file of PTX on a device and describes its kernels.
func AboutKernels(g *ferry.GPU, path string) (r *KernelReport, err error) {
	m, err := ferry.LoadFile(g, path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	r = &KernelReport{Schema: KernelSchema, Device: Of(g), File: path, Kernels: []Kernel{}}
	if m.Kernels() == nil {
		return nil, fmt.Errorf("describe the kernels of %s: there are none, or the file is no PTX: a cubin or fatbin does not list its kernels", path)
	}
	for _, name := range m.Kernels() {
		k, err := m.Kernel(name)
		if err != nil {
			return nil, err
		}
		about, err := aboutKernel(k)
		if err != nil {
			return nil, err
		}
		r.Kernels = append(r.Kernels, about)
	}
	return r, nil
}

func aboutKernel(k *ferry.Kernel) (about Kernel, err error) {
	f, err := k.Facts()
	if err != nil {
		return about, err
	}
	about = Kernel{
		Name: k.Name(), Parameters: []Parameter{}, Estimated: f.Estimated, Registers: f.Registers,
		StaticShared: f.StaticShared, DynamicShared: f.DynamicShared, Local: f.Local, Constant: f.Constant,
		MaxThreads: f.MaxThreads, PTXVersion: f.PTXVersion, BinaryVersion: f.BinaryVersion, CacheGlobal: f.CacheGlobal,
	}
	for _, p := range k.Params() {
		about.Parameters = append(about.Parameters, Parameter{p.Name, typeText(p), p.Offset, p.Size})
	}
	o := &about.Occupancy
	if o.Block, o.Grid, err = k.SuggestBlock(0); err != nil || o.Block == 0 {
		return about, err
	}
	active, err := k.Occupancy(o.Block, 0)
	o.Blocks, o.Fraction = active.Blocks, active.Fraction
	return about, err
}

// typeText returns the type of a parameter: ".u64", or ".b8[12]" for an array.
func typeText(p ptx.Param) string {
	text := "." + p.Type.String()
	if one := p.Type.Size(); one > 0 && p.Size > one {
		text += fmt.Sprintf("[%d]", p.Size/one)
	}
	return text
}

// JSON returns the report as one document.
func (r *KernelReport) JSON() ([]byte, error) {
	text, err := json.Marshal(r)
	return append(text, '\n'), err
}

// Page returns the report with a section for each kernel. Estimates have a ~.
func (r *KernelReport) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("%s\nfile: %s", r.Device.Line(), r.File)
	estimated := false
	for i := range r.Kernels {
		p.Line("\n" + r.Kernels[i].Name)
		p.Table(r.Kernels[i].facts())
		estimated = estimated || r.Kernels[i].Estimated
	}
	if estimated {
		p.Linef("\n~ is an estimate. Registers: the values of the PTX that are needed at once.\n"+
			"Occupancy: CUDA's formula with these registers and the limits of %s.", r.limits())
	}
	return p
}

// limits names the origin of the limits.
func (r *KernelReport) limits() string {
	if r.Device.Profile == nil {
		return "the device"
	}
	return "profile " + *r.Device.Profile
}

// facts returns what is known of a kernel.
func (k *Kernel) facts() *layout.Table {
	t := facts(2, 20)
	line := func(subject, format string, args ...any) { t.Row(subject, fmt.Sprintf(format, args...)) }
	about := ""
	if k.Estimated {
		about = "~"
	}
	for i, p := range k.Parameters {
		line(fmt.Sprintf("parameter %d", i), "%s %s, at byte %d", p.Type, p.Name, p.Offset)
	}
	line("registers", "%s%d a thread", about, k.Registers)
	line("shared memory", "%s a block, and up to %s dynamic", sizeText(k.StaticShared), sizeText(k.DynamicShared))
	line("local memory", "%s a thread", sizeText(k.Local))
	line("constant memory", "%s in the module", sizeText(k.Constant))
	line("largest block", "%d threads", k.MaxThreads)
	line("compiled", "from PTX for sm_%d to code for sm_%d%s", k.PTXVersion, k.BinaryVersion, cacheText(k.CacheGlobal))
	if o := &k.Occupancy; o.Block > 0 {
		line("suggested block", "%s%d threads", about, o.Block)
		line("occupancy", "%s%d such blocks on a multiprocessor, %.0f %% of its threads", about, o.Blocks, 100*o.Fraction)
		line("full grid", "%s%d such blocks", about, o.Grid)
	} else {
		line("occupancy", "no block fits")
	}
	return t
}

func cacheText(caches bool) string {
	if caches {
		return ", caches global memory in L1"
	}
	return ""
}
