package api

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	hazards "github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/dlpack"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/ferrybind"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/kerneltest"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// declaration is an exported function, or an exported method of an exported type.
type declaration struct {
	context bool // a parameter is a context.Context
	fails   bool // the last result is an error
	comment string
}

// declared returns what the source of the package declares, by name: "Copy", "Stream.Wait".
func declared(t *testing.T) map[string]declaration {
	t.Helper()
	all := declaredIn(t, ".")
	if len(all) < 100 {
		t.Fatalf("found only %d declarations", len(all))
	}
	return all
}

// declaredIn is declared for the package in a folder.
func declaredIn(t *testing.T, dir string) map[string]declaration {
	t.Helper()
	all := map[string]declaration{}
	files := must(filepath.Glob(filepath.Join(dir, "*.go")))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments))(t)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				of := typeName(f.Recv.List[0].Type)
				if !ast.IsExported(of) {
					continue
				}
				name = of + "." + name
			}
			all[name] = declaration{takesContext(f), returnsError(f), f.Doc.Text()}
		}
	}
	return all
}

// typeName returns the name of a receiver's type, without star and type parameters.
func typeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func takesContext(f *ast.FuncDecl) bool {
	return slices.ContainsFunc(f.Type.Params.List, func(p *ast.Field) bool {
		s, ok := p.Type.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Context" && s.X.(*ast.Ident).Name == "context"
	})
}

func returnsError(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	all := f.Type.Results.List
	last, ok := all[len(all)-1].Type.(*ast.Ident)
	return ok && last.Name == "error"
}

// wantAll checks that a table has an entry for each name, and no others.
func wantAll[V any](t *testing.T, what string, table map[string]V, names []string) {
	t.Helper()
	for _, name := range names {
		if _, ok := table[name]; !ok {
			t.Errorf("%s: there is no entry for %s", what, name)
		}
	}
	for name := range table {
		if !slices.Contains(names, name) {
			t.Errorf("%s: %s does not exist", what, name)
		}
	}
}

// receivers are a nil pointer of each exported type with methods.
var receivers = []any{
	(*ferry.Batch)(nil), (*ferry.Device[float32])(nil), (*ferry.Event)(nil), (*ferry.GPU)(nil), (*ferry.Graph)(nil),
	(*ferry.Host[float32])(nil), (*ferry.Kernel)(nil), (*ferry.Managed[float32])(nil), (*ferry.MemPool)(nil), (*ferry.MemoryView[float32])(nil),
	(*ferry.Module)(nil), (*ferry.PageableSlice[float32])(nil), (*ferry.PartError)(nil), (*ferry.PinError)(nil), (*ferry.PinnedPool)(nil), (*ferry.Staging)(nil),
	(*ferry.Stream)(nil),
	new(ferry.LaunchConfig), // has no methods of a pointer
}

// typeOf returns the name of a receiver's type: "Device" for *ferry.Device[float32].
func typeOf(receiver any) string {
	name, _, _ := strings.Cut(reflect.TypeOf(receiver).Elem().Name(), "[")
	return name
}

// TestMethodSets: the methods of each type are those that its documentation lists. An embedded
// type adds none.
func TestMethodSets(t *testing.T) {
	api := declared(t)
	found := map[string]bool{}
	for _, r := range receivers {
		for m := range reflect.TypeOf(r).Methods() {
			found[typeOf(r)+"."+m.Name] = true
		}
	}
	for _, v := range []any{ferry.Rect[byte]{}, ferry.Pair[byte]{}, ferry.Advice{}, ferry.GPUInfo{}, ferry.EventOptions{}, ferry.HostOptions{},
		ferrybind.Param{}, ferry.ManagedOptions{}, ferry.MemPoolOptions{}, ferry.MemPoolStats{}, ferry.PartsOptions{}, ferry.StagingStats{}, bridge.PinPrediction{}, ferry.PinnedPoolOptions{},
		ferry.PinnedPoolStats{}, ferry.RegisterOptions{}, ferry.StreamOptions{}} {
		if n := reflect.PointerTo(reflect.TypeOf(v)).NumMethod(); n != 0 {
			t.Errorf("%T has %d methods, want none", v, n)
		}
	}
	var methods []string
	for name, d := range api {
		if strings.Contains(name, ".") {
			methods = append(methods, name)
		}
		base := name[strings.LastIndex(name, ".")+1:]
		if !strings.HasPrefix(d.comment, base+" ") {
			t.Errorf("the comment of %s begins with %.20q, want %q", name, d.comment, base)
		}
	}
	wantAll(t, "method sets", found, methods)
}

// TestStrings: what String returns for new and for closed objects, and that fmt prints the same.
func TestStrings(t *testing.T) {
	gputest.NeedsH200(t, "its name")
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	graph := must(s.Capture(func(*ferry.Stream) error { return nil }))(t)
	module := must(ferry.Load(g, []byte(paramsPTX), nil))(t)
	pinned := must(ferry.NewPinnedPool(g, nil))(t)
	device, host := must(ferry.Alloc[float32](g, 1000))(t), must(ferry.AllocHost[int64](g, 3, nil))(t)
	var pooled ferry.Host[byte]
	check(t, pooled.Alloc(pinned, 300))
	registered := must(ferry.Register(g, make([]byte, 100), nil))(t)
	managed := must(ferry.AllocManaged[[2]uint16](g, 0, nil))(t)
	event, pool := must(ferry.NewEvent(g, nil))(t), must(ferry.NewMemPool(g, nil))(t)
	all := map[string]struct {
		things []fmt.Stringer
		want   []string
	}{
		"GPU":    {[]fmt.Stringer{g}, []string{"soft:h200 (software, predicts NVIDIA H200)"}},
		"Stream": {[]fmt.Stringer{s, g.DefaultStream()}, []string{"stream 1 of soft:h200", "the default stream of soft:h200"}},
		"Event":  {[]fmt.Stringer{event}, []string{"an event of soft:h200"}},
		"Graph":  {[]fmt.Stringer{graph}, []string{"graph 1 on soft:h200"}},
		"Module": {[]fmt.Stringer{module}, []string{"a module (" + strings.Join(module.Kernels(), ", ") + ") on soft:h200"}},
		"Device": {[]fmt.Stringer{device, device.Range(0, 10), device.Range(3, 2), new(ferry.Device[int])}, []string{
			"device buffer 1 (1000 float32, 3.9 KiB) on soft:h200", "40 bytes of device buffer 1 (1000 float32, 3.9 KiB) on soft:h200",
			"0 bytes of device buffer 1 (1000 float32, 3.9 KiB) on soft:h200", "no memory (an empty slice, or a Host without Alloc)"}},
		"Host": {[]fmt.Stringer{host, &pooled, registered}, []string{"page-locked buffer 2 (3 int64, 24 bytes) on soft:h200",
			"page-locked buffer 3 of a pool (up to 512 bytes) on soft:h200", "registered buffer 4 (100 uint8, 100 bytes) on soft:h200"}},
		"Managed":       {[]fmt.Stringer{managed}, []string{"managed buffer 5 (0 [2]uint16, 0 bytes) on soft:h200"}},
		"PageableSlice": {[]fmt.Stringer{ferry.Pageable(make([]float32, 1000))}, []string{"a pageable slice (1000 elements, 3.9 KiB)"}},
		"MemoryView": {[]fmt.Stringer{ferry.View[byte](device), ferry.View[uint16](ferry.Pageable(make([]float32, 1000)))}, []string{
			"3.9 KiB of device buffer 1 (1000 float32, 3.9 KiB) on soft:h200", "a pageable slice (2000 elements, 3.9 KiB)"}},
		"PinnedPool": {[]fmt.Stringer{pinned}, []string{"a pool of page-locked memory of soft:h200"}},
		"MemPool":    {[]fmt.Stringer{pool}, []string{"a memory pool of soft:h200"}},
		"LaunchConfig": {[]fmt.Stringer{ferry.Cover(1000, 256), ferry.LaunchConfig{}, ferry.LaunchConfig{Grid: cu.Dim3{X: 2, Z: 3}, Block: cu.Dim3{X: 1}, SharedBytes: 9}},
			[]string{"grid 4x1x1, block 256x1x1", "grid 0x1x1, block 0x1x1", "grid 2x1x3, block 1x1x1, 9 bytes of shared memory"}},
	}
	wantTexts := func(when string) {
		t.Helper()
		for name, c := range all {
			for i, x := range c.things {
				if got := x.String(); got != c.want[i] || fmt.Sprint(x) != got {
					t.Errorf("%s: %s is %q, and %q for fmt; want %q", when, name, got, fmt.Sprint(x), c.want[i])
				}
			}
		}
	}
	wantTexts("open")
	closeAll(t, graph, module, &pooled, pinned, device, host, registered, managed, event, pool, s)
	wantTexts("closed")
	var names []string
	for name := range declared(t) {
		if of, ok := strings.CutSuffix(name, ".String"); ok {
			names = append(names, of)
		}
	}
	wantAll(t, "String", all, names)
}

// api has the exported functions of a package, and a nil pointer of each type with methods.
type api struct {
	functions map[string]any
	types     []any
}

// otherPackages has the packages that programs import, beside ferry itself.
var otherPackages = map[string]api{
	"pipeline": {map[string]any{"From": pipeline.From[float32], "To": pipeline.To[float32]}, []any{(*pipeline.Pipeline)(nil)}},
	"fault": {map[string]any{"Codes": fault.Codes, "Environment": fault.Environment, "Parse": fault.Parse, "Wrap": fault.Wrap},
		[]any{(*fault.Driver)(nil), (*fault.Mode)(nil)}},
	"check": {map[string]any{"Environment": hazards.Environment, "Wrap": hazards.Wrap},
		[]any{(*hazards.Driver)(nil), (*hazards.Finding)(nil), (*hazards.Side)(nil)}},
	"trace": {map[string]any{"Environment": trace.Environment, "Observe": trace.Observe, "Tag": trace.Tag, "Read": trace.Read, "ReadFile": trace.ReadFile, "Start": trace.Start},
		[]any{(*trace.Driver)(nil), (*trace.DriverInfo)(nil), (*trace.Recorder)(nil), (*trace.Site)(nil)}},
	"compile": {map[string]any{"File": compile.File, "Link": compile.Link, "Source": compile.Source},
		[]any{(*compile.ArchError)(nil), (*compile.Diagnostic)(nil), (*compile.Error)(nil), (*compile.InputKind)(nil), (*compile.NotFoundError)(nil)}},
	"kerneltest": {map[string]any{"Check": kerneltest.Check, "DefaultSizes": kerneltest.DefaultSizes, "Device": kerneltest.Device[float32],
		"NewBF16": kerneltest.NewBF16, "NewF16": kerneltest.NewF16, "Run": nil, "Slice": kerneltest.Slice[float32], "Value": kerneltest.Value[float32]},
		[]any{(*kerneltest.Args)(nil), (*kerneltest.BF16)(nil), (*kerneltest.F16)(nil)}},
	"dlpack": {map[string]any{"Export": dlpack.Export[float32], "Import": dlpack.Import[float32],
		"Receive": dlpack.Receive[float32], "Send": dlpack.Send[float32]},
		[]any{(*dlpack.Array[float32])(nil), (*dlpack.Tensor)(nil), (*dlpack.Type)(nil)}},
	"ferrybind": {map[string]any{"Kernel": ferrybind.Kernel, "Launch": ferrybind.Launch}, nil},
	"profile": {map[string]any{"Apply": profile.Apply, "Confidences": profile.Confidences, "ForDevice": profile.ForDevice, "Line": profile.Line, "Load": profile.Load, "Nearest": profile.Nearest,
		"Named": profile.Named, "Names": profile.Names, "Parse": profile.Parse, "Text": profile.Text},
		[]any{(*profile.Curve)(nil), (*profile.FieldError)(nil), (*profile.Number)(nil), (*profile.Profile)(nil), (*profile.Service)(nil), (*profile.Tuning)(nil)}},
}

// documentedPanics are the functions whose comments say that they panic.
var documentedPanics = []string{"kerneltest.Device", "kerneltest.Slice", "kerneltest.Value", "profile.Apply"}

// isDriverCall reports whether a method is a call of the driver other than Init, which the
// comment of the type says may panic.
func isDriverCall(pkg string, m reflect.Method) bool {
	if !slices.Contains([]string{"fault.Driver", "check.Driver", "trace.Driver"}, pkg+"."+typeOf(reflect.Zero(m.Type.In(0)).Interface())) {
		return false
	}
	_, is := reflect.TypeFor[cu.Driver]().MethodByName(m.Name)
	return is && m.Name != "Init"
}

// TestOtherPackages: no function and no method of the other packages panics for nil and zero
// values and mixtures of them with good ones, but for the documented exceptions. A method of a
// nil pointer that returns an error returns one.
func TestOtherPackages(t *testing.T) {
	sample.SkipRace(t)
	x := newBadInput(t)
	t.Setenv(compile.ClangVariable, "/nothing/clang") // no compiler is started
	t.Setenv(compile.NVRTCVariable, "/nothing/libnvrtc.so")
	calls := 0
	for pkg, api := range otherPackages {
		var names []string
		try := func(name string, f reflect.Value, isNil bool) {
			for args := range x.mixtures(f.Type()) {
				calls++
				results, panicked := call(f, args)
				if panicked != nil && !slices.Contains(documentedPanics, name) {
					t.Errorf("%s with %v panics: %v", name, args, panicked)
					return
				} else if err, ok := errorOf(f.Type(), results); panicked == nil && isNil && ok && err == nil && !strings.HasSuffix(name, "Close") {
					t.Errorf("%s of nil returns no error", name)
				}
			}
		}
		for name, f := range api.functions {
			names = append(names, name)
			if f != nil {
				try(pkg+"."+name, reflect.ValueOf(f), false)
			}
		}
		for _, r := range api.types {
			of := reflect.TypeOf(r)
			for m := range of.Methods() {
				if isDriverCall(pkg, m) {
					continue
				}
				names = append(names, typeOf(r)+"."+m.Name)
				for _, v := range []reflect.Value{reflect.ValueOf(r), reflect.New(of.Elem())} {
					if _, ofValue := of.Elem().MethodByName(m.Name); !ofValue || !v.IsNil() {
						try(pkg+"."+typeOf(r)+"."+m.Name, v.MethodByName(m.Name), v.IsNil())
					}
				}
			}
		}
		all := declaredIn(t, pkg)
		maps.DeleteFunc(all, func(name string, _ declaration) bool {
			_, is := reflect.TypeFor[cu.Driver]().MethodByName(strings.TrimPrefix(name, "Driver."))
			return is && name != "Driver.Init" && strings.HasPrefix(name, "Driver.")
		})
		tested := map[string]bool{}
		for _, name := range names {
			tested[name] = true
		}
		wantAll(t, pkg, tested, slices.Collect(maps.Keys(all)))
	}
	if calls < 150 {
		t.Errorf("%d calls: the test does not test what it should", calls)
	}
}

// TestNoDriver: Init of a wrapper that wraps nothing, and of a driver that was not opened, is an
// error, through every wrapper. OpenDriver returns it.
func TestNoDriver(t *testing.T) {
	wrappers := map[string]func(cu.Driver) cu.Driver{
		"check": func(d cu.Driver) cu.Driver { return hazards.Wrap(d, hazards.Options{}) },
		"fault": func(d cu.Driver) cu.Driver { return fault.Wrap(d, fault.Options{}) },
		"trace": func(d cu.Driver) cu.Driver { return new(trace.Recorder).Wrap(d) },
	}
	all := map[string]cu.Driver{"zero check": new(hazards.Driver), "zero fault": new(fault.Driver), "zero trace": new(trace.Driver),
		"nil check": (*hazards.Driver)(nil), "nil fault": (*fault.Driver)(nil), "nil trace": (*trace.Driver)(nil)}
	for name, wrap := range wrappers {
		for what, d := range map[string]cu.Driver{"nothing": nil, "a zero softgpu.Driver": new(softgpu.Driver), "a nil softgpu.Driver": (*softgpu.Driver)(nil),
			"a zero libcuda.Driver": new(libcuda.Driver), "a nil fault.Driver": (*fault.Driver)(nil)} {
			_, panicked := call(reflect.ValueOf(func() { all[name+" of "+what] = wrap(d) }), nil)
			if panicked != nil {
				t.Errorf("%s of %s: panic: %v", name, what, panicked)
			}
		}
	}
	for name, d := range all {
		for what, f := range map[string]func() error{"Init": func() error { return d.Init(0) }, "OpenDriver": func() error { return last(ferry.OpenDriver(d, 0)) }} {
			results, panicked := call(reflect.ValueOf(f), nil)
			if panicked != nil {
				t.Errorf("%s of %s: panic: %v", what, name, panicked)
			} else if err, _ := results[0].Interface().(error); !errors.Is(err, cu.ErrorNotInitialized) {
				t.Errorf("%s of %s: %v, want %v", what, name, err, cu.ErrorNotInitialized)
			}
		}
	}
	for variable, environment := range map[string]func(cu.Driver) (cu.Driver, error){fault.Variable: fault.Environment, softgpu.CheckVariable: hazards.Environment, trace.Variable: trace.Environment} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, map[string]string{fault.Variable: "seed:1", softgpu.CheckVariable: "memory", trace.Variable: t.TempDir() + "/trace"}[variable])
			if d, err := environment(nil); d != nil || err != nil {
				t.Errorf("Environment(nil) returns %v, %v", d, err)
			}
		})
	}
	g := must(ferry.OpenDriver(wrappers["trace"](softDriver(t, "h200", 1, softgpu.Eager)), 0))(t)
	check(t, g.Wait(context.Background()))
	check(t, g.Close())
}

// TestNilBatch: Submit of no batch is an error of every driver.
func TestNilBatch(t *testing.T) {
	d := softDriver(t, "h200", 1, softgpu.Eager)
	r := must(trace.Start(&trace.Options{Regions: true}))(t)
	for name, d := range map[string]cu.Driver{"softgpu": d, "check": hazards.Wrap(d, hazards.Options{}), "fault": fault.Wrap(d, fault.Options{}), "trace": r.Wrap(d),
		"libcuda": new(libcuda.Driver)} {
		results, panicked := call(reflect.ValueOf(func() error { return last(d.Submit(0, nil)) }), nil)
		if panicked != nil {
			t.Errorf("%s: panic: %v", name, panicked)
		} else if err, _ := results[0].Interface().(error); !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%s: %v, want %v", name, err, cu.ErrorInvalidValue)
		}
	}
	check(t, r.Close())
}
