package ferry_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	hazards "github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/kerneltest"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

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
	"trace": {map[string]any{"Environment": trace.Environment, "Read": trace.Read, "ReadFile": trace.ReadFile, "Start": trace.Start},
		[]any{(*trace.Driver)(nil), (*trace.DriverInfo)(nil), (*trace.Recorder)(nil), (*trace.Site)(nil)}},
	"compile": {map[string]any{"File": compile.File, "Link": compile.Link, "Source": compile.Source},
		[]any{(*compile.ArchError)(nil), (*compile.Diagnostic)(nil), (*compile.Error)(nil), (*compile.InputKind)(nil), (*compile.NotFoundError)(nil)}},
	"kerneltest": {map[string]any{"Check": kerneltest.Check, "DefaultSizes": kerneltest.DefaultSizes, "Device": kerneltest.Device[float32],
		"NewBF16": kerneltest.NewBF16, "NewF16": kerneltest.NewF16, "Run": nil, "Slice": kerneltest.Slice[float32], "Value": kerneltest.Value[float32]},
		[]any{(*kerneltest.Args)(nil), (*kerneltest.BF16)(nil), (*kerneltest.F16)(nil)}},
	"profile": {map[string]any{"Apply": profile.Apply, "ForDevice": profile.ForDevice, "Line": profile.Line, "Load": profile.Load,
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
