package api

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

const loadHeader = ".version 6.3\n.target sm_52\n.address_size 64\n"

// loadMain has the kernel main(out): out[0] = twice(counter), and counter += 1. Function and
// variable are those of another module.
const loadMain = loadHeader + `
.extern .func (.param .b32 result) twice(.param .b32 x);
.extern .global .u32 counter;
.visible .entry main(.param .u64 out)
{
	.reg .b32 %r<4>;
	.reg .b64 %d<2>;
	.param .b32 x;
	.param .b32 y;
	ld.param.u64 %d1, [out];
	ld.global.u32 %r1, [counter];
	add.u32 %r2, %r1, 1;
	st.global.u32 [counter], %r2;
	st.param.b32 [x], %r1;
	call (y), twice, (x);
	ld.param.b32 %r3, [y];
	st.global.u32 [%d1], %r3;
	ret;
}
`

const loadTwice = loadHeader + `
.visible .global .u32 counter = 21;
.visible .func (.param .b32 result) twice(.param .b32 x)
{
	.reg .b32 %r<2>;
	ld.param.b32 %r1, [x];
	shl.b32 %r1, %r1, 1;
	st.param.b32 [result], %r1;
	ret;
}
`

func linkInputs(texts ...string) []ferry.LinkInput {
	var inputs []ferry.LinkInput
	for i, text := range texts {
		inputs = append(inputs, ferry.LinkInput{Name: fmt.Sprintf("input%d.ptx", i), Image: []byte(text)})
	}
	return inputs
}

// runMain launches kernel main and returns its result.
func runMain(t *testing.T, g *ferry.GPU, m *ferry.Module) uint32 {
	t.Helper()
	k := must(m.Kernel("main"))(t)
	s := must(ferry.NewStream(g, nil))(t)
	out := must(ferry.Upload(g, []uint32{0xdead}))(t)
	defer closeAll(t, out, s)
	check(t, s.Launch(k, ferry.Cover(1, 1), out))
	check(t, s.Wait(context.Background()))
	return must(ferry.Download(out))(t)[0]
}

// TestLink: the linked module has the kernels and variables of its inputs, with typed
// parameters.
func TestLink(t *testing.T) {
	g := openTest(t)
	m := must(ferry.Link(g, linkInputs(loadMain, loadTwice), &ferry.LoadOptions{LineInfo: true}))(t)
	defer closeAll(t, m)
	if got := m.Kernels(); !slices.Equal(got, []string{"main"}) {
		t.Errorf("the kernels are %q", got)
	}
	if k := must(m.Kernel("main"))(t); len(k.Params()) != 1 || k.Params()[0].Name != "out" {
		t.Errorf("the parameters are %v", k.Params())
	}
	for _, want := range []uint32{42, 44} {
		if got := runMain(t, g, m); got != want {
			t.Errorf("main returns %d, want %d", got, want)
		}
	}
	counter := must(ferry.Global[uint32](m, "counter"))(t)
	if got := must(ferry.Download(counter))(t)[0]; got != 23 {
		t.Errorf("counter is %d, want 23", got)
	}
	again := must(ferry.Link(g, linkInputs(loadMain, loadTwice), nil))(t)
	defer closeAll(t, again)
	if got := runMain(t, g, again); got != 42 {
		t.Errorf("the second module shares the variable of the first: main returns %d", got)
	}
}

// TestLoadsRunAtOnce: loads of one image run at once, each with its own variables.
func TestLoadsRunAtOnce(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 3 {
				m, err := ferry.Link(g, linkInputs(loadMain, loadTwice), nil)
				if err != nil {
					t.Error(err)
					return
				}
				k, err := m.Kernel("main")
				if err != nil {
					t.Error(err)
					return
				}
				s, _ := ferry.NewStream(g, nil)
				out, _ := ferry.Alloc[uint32](g, 1)
				for i := range uint32(5) {
					if err := s.Launch(k, ferry.Cover(1, 1), out); err != nil {
						t.Error(err)
					}
					if err := s.Wait(context.Background()); err != nil {
						t.Error(err)
					}
					if got, err := ferry.Download(out); err != nil || got[0] != 2*(21+i) {
						t.Errorf("launch %d: %v, %v, want %d", i, got, err, 2*(21+i))
					}
				}
				closeAll(t, out, s, m)
			}
		})
	}
	group.Wait()
}

// TestLinkAlias: a kernel calls a function of another module by its alias.
func TestLinkAlias(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	alias := strings.Replace(loadTwice, "twice", "double", 1) + ".alias twice, double;\n"
	alias = strings.Replace(alias, ".visible .func", ".visible .func (.param .b32 result) twice(.param .b32 x);\n.visible .func", 1)
	m := must(ferry.Link(g, linkInputs(loadMain, alias), nil))(t)
	defer closeAll(t, m)
	if got := runMain(t, g, m); got != 42 {
		t.Errorf("got %d, want 42", got)
	}
}

// TestLinkEnds: a link that fails is ended too.
func TestLinkEnds(t *testing.T) {
	d, g := softHooks(t)
	for i, inputs := range [][]ferry.LinkInput{linkInputs(loadMain), linkInputs("no PTX"), linkInputs(loadMain, loadTwice)} {
		m, err := ferry.Link(g, inputs, nil)
		if (err == nil) != (i == 2) || d.count("LinkDestroy") != i+1 {
			t.Errorf("inputs %d: %v, %d links ended, want %d", i, err, d.count("LinkDestroy"), i+1)
		}
		closeAll(t, m)
	}
}

// TestLinkEndFails: if the link cannot be ended, the module is unloaded, and the GPU stays
// open until the last buffer is closed.
func TestLinkEndFails(t *testing.T) {
	d, g := softHooks(t)
	x := must(ferry.Alloc[int32](g, 4))(t)
	fail := errors.New("failed")
	d.during("LinkDestroy", func() error { return fail })
	m, err := ferry.Link(g, linkInputs(loadMain, loadTwice), nil)
	if m != nil || !errors.Is(err, fail) || d.count("ModuleUnload") != 1 {
		t.Errorf("%v, %v, %d modules unloaded, want an error and 1", m, err, d.count("ModuleUnload"))
	}
	check(t, g.Close())
	if n := d.count("DevicePrimaryCtxRelease"); n != 0 {
		t.Error("the GPU was released before its buffer")
	}
	check(t, x.Close())
	d.wantReleased(t, "after the last buffer")
}

// TestLinkErrors: errors name the symbol and the inputs, and leave nothing behind.
func TestLinkErrors(t *testing.T) {
	g := openTest(t)
	bad := strings.Replace(loadTwice, "shl.b32 %r1,", "shl.b32 %r1", 1)
	for name, c := range map[string]struct {
		inputs []ferry.LinkInput
		want   []string
	}{
		"missing":   {linkInputs(loadMain), []string{"twice"}},
		"duplicate": {linkInputs(loadMain, loadTwice, loadTwice), []string{"twice"}},
		"syntax":    {linkInputs(loadMain, bad), []string{"input1.ptx:10:", "^"}},
		"garbage":   {linkInputs(loadMain, "no PTX"), []string{"input1.ptx (6 bytes)"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ferry.Link(g, c.inputs, nil)
			if m != nil || err == nil {
				t.Fatalf("%v, %v", m, err)
			}
			text := err.Error()
			if jit, ok := errors.AsType[*cu.JITError](err); ok {
				text += jit.Log
			} else if name != "garbage" {
				t.Errorf("%v has no *cu.JITError", err)
			}
			for _, part := range append(c.want, "link modules (input0.ptx") {
				if !strings.Contains(text, part) {
					t.Errorf("%v does not have %q", err, part)
				}
			}
		})
	}
}

// TestLoadOptions: the options reach the driver, and its log the caller.
func TestLoadOptions(t *testing.T) {
	d := &loadRecorder{Driver: newFake(), log: "ptxas info: a\nptxas warning : b\n  Warning: c  \n"}
	g := openDriver(t, d)
	all := &ferry.LoadOptions{Optimize: new(0), MaxRegisters: 40, LineInfo: true, Debug: true, Verbose: true, InfoLogBytes: 100, ErrorLogBytes: 200}
	m := must(ferry.Load(g, []byte(loadTwice), all))(t)
	defer closeAll(t, m)
	got := d.options
	if got == nil || *got.OptimizationLevel != 0 || got.MaxRegisters != 40 || !got.LineInfo || !got.DebugInfo || !got.Verbose || got.InfoLogBytes != 100 || got.ErrorLogBytes != 200 {
		t.Errorf("the driver got %+v", got)
	}
	if m.Log() != d.log || !slices.Equal(m.Warnings(), []string{"ptxas warning : b", "Warning: c"}) {
		t.Errorf("log %q, warnings %q", m.Log(), m.Warnings())
	}
	closeAll(t, must(ferry.Load(g, []byte(loadTwice), nil))(t))
	if d.options != nil {
		t.Errorf("without options the driver got %+v", d.options)
	}
	closeAll(t, must(ferry.Load(g, []byte(loadTwice), new(ferry.LoadOptions)))(t))
	if *d.options != (cu.JITOptions{}) {
		t.Errorf("with zero options the driver got %+v", d.options)
	}
	var none *ferry.Module
	if none.Log() != "" || none.Warnings() != nil {
		t.Error("no module has a log")
	}
}

// loadRecorder records the options of loads.
type loadRecorder struct {
	cu.Driver
	options *cu.JITOptions
	log     string
}

func (d *loadRecorder) ModuleLoadDataEx(ctx cu.Context, image []byte, o *cu.JITOptions) (cu.Module, string, error) {
	d.options = o
	m, _, err := d.Driver.ModuleLoadDataEx(ctx, image, o)
	return m, d.log, err
}

// TestLoadLog: the software GPU warns of what a GPU or a launch would refuse, and its
// errors are cut to the size of the log.
func TestLoadLog(t *testing.T) {
	gputest.NeedsH200(t, "its compute capability")
	g := openSoft(t, "h200", softgpu.Eager)
	text := strings.Replace(loadHeader, "sm_52", "sm_120", 1) + ".visible .entry k() {\n\tfrobnicate.u32 1;\n\tret;\n}\n.visible .entry ok() { ret; }\n"
	m := must(ferry.Load(g, []byte(text), &ferry.LoadOptions{Verbose: true}))(t)
	defer closeAll(t, m)
	warnings := m.Warnings()
	if len(warnings) != 2 || !strings.Contains(warnings[0], "sm_120") || !strings.Contains(warnings[1], "kernel k: frobnicate.u32") || !strings.Contains(warnings[1], "5:2") {
		t.Errorf("warnings %q", warnings)
	}
	if !strings.Contains(m.Log(), "kernel ok: 0 registers") {
		t.Errorf("log %q", m.Log())
	}
	_, err := ferry.Load(g, []byte(loadHeader+"oops"), &ferry.LoadOptions{ErrorLogBytes: 10})
	if jit, ok := errors.AsType[*cu.JITError](err); !ok || len(jit.Log) != 9 {
		t.Errorf("error %+v", err)
	}
}

// TestLoadAgain: modules of the same bytes have variables of their own, also when several
// goroutines load them at once.
func TestLoadAgain(t *testing.T) {
	g := openTest(t)
	text := []byte(loadHeader + ".visible .global .u32 v = 3;\n" + fmt.Sprintf("// %d\n", rand.Uint64()))
	modules := make([]*ferry.Module, 8)
	var group sync.WaitGroup
	for i := range modules {
		group.Go(func() {
			m, err := ferry.Load(g, text, nil)
			if err != nil {
				t.Error(err)
				return
			}
			modules[i] = m
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	for i, m := range modules {
		v := must(ferry.Global[uint32](m, "v"))(t)
		if got := must(ferry.Download(v))(t)[0]; got != 3 {
			t.Errorf("module %d: v is %d, want 3", i, got)
		}
		check(t, ferry.Copy(g.DefaultStream(), v, ferry.Pageable([]uint32{uint32(100 + i)})))
	}
	for i, m := range modules {
		if got := must(ferry.Download(must(ferry.Global[uint32](m, "v"))(t)))(t)[0]; got != uint32(100+i) {
			t.Errorf("module %d: v is %d, want %d", i, got, 100+i)
		}
		closeAll(t, m)
	}
}

// TestVariableAddress: code uses addresses of variables with and without an offset.
func TestVariableAddress(t *testing.T) {
	g := openTest(t)
	m := must(ferry.Load(g, []byte(loadHeader+`
.visible .global .align 8 .b8 v[64];
.visible .entry main(.param .u64 out) {
	.reg .b32 %r<2>;
	.reg .b64 %d<5>;
	ld.param.u64 %d1, [out];
	mov.u64 %d2, v;
	mov.u64 %d3, v+24;
	sub.u64 %d4, %d3, %d2;
	cvt.u32.u64 %r1, %d4;
	st.global.u32 [%d1], %r1;
	ret;
}
`), nil))(t)
	defer closeAll(t, m)
	if got := runMain(t, g, m); got != 24 {
		t.Errorf("v+24 is %d bytes behind v, want 24", got)
	}
}

// fatbinOf returns a fatbin with entries of one kind (1 is PTX, 2 a cubin) for each text.
func fatbinOf(kind uint16, arch uint32, texts ...string) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, text := range texts {
		text += strings.Repeat("\x00", -len(text)&7)
		head := make([]byte, 64)
		le.PutUint16(head, kind)
		le.PutUint32(head[4:], 64)
		le.PutUint64(head[8:], uint64(len(text)))
		le.PutUint32(head[28:], arch)
		body = append(append(body, head...), text...)
	}
	head := make([]byte, 16)
	le.PutUint32(head, 0xba55ed50)
	le.PutUint16(head[4:], 1)
	le.PutUint16(head[6:], 16)
	le.PutUint64(head[8:], uint64(len(body)))
	return append(head, body...)
}

// TestLoadFatbin: the software GPU runs the PTX of a fatbin, and says what else an image is.
func TestLoadFatbin(t *testing.T) {
	gputest.NeedsCall(t, "cuFuncGetParamInfo", 12040)
	g := openSoft(t, "h200", softgpu.Eager)
	m := must(ferry.Load(g, fatbinOf(1, 52, loadHeader+".visible .entry k(.param .u64 p) { ret; }"), nil))(t)
	if k := must(m.Kernel("k"))(t); len(k.Params()) != 1 || k.Params()[0].Size != 8 {
		t.Errorf("parameters %v", k.Params())
	}
	linked := must(ferry.Link(g, []ferry.LinkInput{{Name: "a", Image: fatbinOf(1, 52, loadMain)}, {Name: "b", Image: []byte(loadTwice)}}, nil))(t)
	if got := runMain(t, g, linked); got != 42 {
		t.Errorf("main of a fatbin returns %d", got)
	}
	closeAll(t, m, linked)
	cubin := "\x7fELF\x02\x01\x01\x33\x07" + strings.Repeat("\x00", 9) + "\xbe\x00" + strings.Repeat("\x00", 28) + "\x5a\x05\x5a\x00" + strings.Repeat("\x00", 12)
	for name, c := range map[string]struct {
		image []byte
		want  string
	}{
		"cubin":           {[]byte(cubin), "machine code for sm_90 (a cubin)"},
		"fatbin of cubin": {fatbinOf(2, 90, cubin), "machine code (cubin) for sm_90, and no PTX: compile with -gencode arch=compute_80,code=compute_80"},
		"program":         {[]byte(strings.Replace(cubin, "\xbe\x00", "\x3e\x00", 1)), "for a host (ELF), and device code in its sections is not looked for: compile with nvcc -fatbin or -ptx"},
	} {
		_, err := ferry.Load(g, c.image, nil)
		wantError(t, err, cu.ErrorNoBinaryForGPU, c.want)
		_, err = ferry.Link(g, []ferry.LinkInput{{Name: name, Image: c.image}}, nil)
		wantError(t, err, cu.ErrorNoBinaryForGPU, name)
	}
	_, err := ferry.Load(g, fatbinOf(1, 52, loadMain)[:200], nil)
	wantError(t, err, cu.ErrorInvalidImage, "cut off")
}

// FuzzLoad loads damaged images of each kind. An image is refused or gives a module that
// can be closed.
func FuzzLoad(f *testing.F) {
	for _, image := range [][]byte{[]byte(loadTwice), fatbinOf(1, 80, loadTwice), fatbinOf(2, 90, "\x7fELF"), []byte("\x7fELF\x02"), []byte("!<arch>\n"),
		[]byte("\x00ferry linked PTX 1\n\x00\x02\x01a\x05.vers\x01b\x00")} {
		f.Add(image)
	}
	for _, name := range []string{"none", "default", "size"} { // of nvcc
		image, err := os.ReadFile(filepath.Join("internal", "fatbin", "testdata", name+".fatbin"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(image)
	}
	p, err := profile.Named("h200")
	if err != nil {
		f.Fatal(err)
	}
	d, err := softgpu.Open(softgpu.Options{Profile: p})
	if err != nil {
		f.Fatal(err)
	}
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, image []byte) {
		for _, load := range []func() (*ferry.Module, error){
			func() (*ferry.Module, error) { return ferry.Load(g, image, nil) },
			func() (*ferry.Module, error) {
				return ferry.Link(g, []ferry.LinkInput{{Name: "fuzz", Image: image}}, nil)
			},
		} {
			var m *ferry.Module
			var err error
			hostile.Check(t, "load", func() { m, err = load() })
			if (m == nil) == (err == nil) {
				t.Fatalf("%v, %v", m, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// BenchmarkLoad loads and closes modules. With seen=no the process has not seen the bytes.
func BenchmarkLoad(b *testing.B) {
	large, err := os.ReadFile(filepath.Join("internal", "test", "differ", "testdata", "ptx", "math.sm_80.ptx"))
	if err != nil {
		large = nil // the binary runs elsewhere
	}
	for _, c := range []struct {
		name string
		text []byte
	}{{"kernels", []byte(kernels.PTX)}, {"math", large}} {
		if c.text == nil {
			continue
		}
		for _, seen := range []bool{false, true} {
			b.Run(fmt.Sprintf("module=%s/seen=%t", c.name, seen), func(b *testing.B) {
				g := openTest(b)
				b.SetBytes(int64(len(c.text)))
				b.ReportAllocs()
				text := c.text
				for b.Loop() {
					if !seen {
						text = fmt.Appendf(c.text[:len(c.text):len(c.text)], "// %x\n", rand.Uint64())
					}
					m, err := ferry.Load(g, text, nil)
					if err != nil {
						b.Fatal(err)
					}
					if err := m.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

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
	check(t, s.Launch(must(m.Kernel("saxpy"))(t), ferry.Cover(n, 128), int32(n), a, in, out))
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
	check(t, s.Launch(must(m.Kernel("fill"))(t), ferry.Cover(n, 128), int32(n), v, out))
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
