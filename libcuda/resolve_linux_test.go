//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestResolve looks up a function in libraries of three ages.
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		name  string
		lacks []string
		want  string // the exported symbol that is called
	}{
		{"CUDA 12", nil, "cuMemFree"},
		{"CUDA 11.3", []string{"cuGetProcAddress_v2"}, "cuMemFree"},
		{"before", []string{"cuGetProcAddress_v2", "cuGetProcAddress"}, "cuMemFree_v2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, d := newFake(t)
			f.on("cuGetProcAddress", func(a []uintptr) cu.Result {
				f.asked[text(a[0])] = int(a[2])
				if a[3] != legacyStream {
					return cu.ErrorUnknown
				}
				store(a[1], fakeProc(text(a[0])))
				return cu.Success
			})
			for _, name := range c.lacks {
				f.lacks[name] = true
			}
			clear(f.asked)
			d = newDriver(d.lib)
			if d.version != 12040 {
				t.Errorf("version %d, want 12040", d.version)
			}
			f.take()
			for range 2 {
				if err := d.MemFree(1, 0x100); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, call := range f.take() {
				if strings.HasPrefix(call.symbol, "cuMemFree") {
					got = append(got, call.symbol)
				}
			}
			if len(got) != 2 || got[0] != c.want || got[1] != c.want {
				t.Errorf("called %v, want %s twice", got, c.want)
			}
			if len(c.lacks) < 2 && f.asked["cuMemFree"] != 3020 {
				t.Errorf("asked for version %d, want 3020", f.asked["cuMemFree"])
			}
		})
	}
}

// TestMissingFunction checks that the error is the same for every way in which a library
// reports a missing function.
func TestMissingFunction(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(f *fakeCUDA)
	}{
		{"success without address", func(f *fakeCUDA) { f.lacks["cuFuncGetParamInfo"] = true }},
		{"not found", func(f *fakeCUDA) {
			f.on("cuGetProcAddress_v2", func([]uintptr) cu.Result { return cu.ErrorNotFound })
		}},
		{"newer than the driver", func(f *fakeCUDA) {
			f.on("cuGetProcAddress_v2", func([]uintptr) cu.Result { return cu.ErrorInvalidValue })
		}},
		{"no cuGetProcAddress", func(f *fakeCUDA) {
			f.lacks["cuGetProcAddress_v2"], f.lacks["cuGetProcAddress"], f.lacks["cuFuncGetParamInfo"] = true, true, true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, d := newFake(t)
			if _, err := d.proc(procCtxSetCurrent); err != nil {
				t.Fatal(err)
			}
			c.set(f)
			_, _, err := d.FuncGetParamInfo(1, 2, 0)
			missing, ok := errors.AsType[*cu.NotSupportedError](err)
			if !ok || !errors.Is(err, cu.ErrorNotSupported) {
				t.Fatalf("error %v, want a *cu.NotSupportedError", err)
			}
			if missing.Call != "cuFuncGetParamInfo" || !strings.Contains(missing.Needs, "CUDA 12.4") ||
				!strings.Contains(missing.Found, "/fake/libcuda.so.1") || !strings.Contains(missing.Found, "CUDA 12.4") {
				t.Errorf("%+v: want the call, the version that has it, and the driver found", missing)
			}
		})
	}
}

// TestLookUpFails checks that a failure of the driver is not taken for a missing
// function.
func TestLookUpFails(t *testing.T) {
	f, d := newFake(t)
	f.on("cuGetProcAddress_v2", func([]uintptr) cu.Result { return cu.ErrorDeinitialized })
	_, err := d.DeviceGetCount()
	if !errors.Is(err, cu.ErrorDeinitialized) || !strings.Contains(err.Error(), "cuDeviceGetCount") {
		t.Errorf("error %v, want CUDA_ERROR_DEINITIALIZED that names the function", err)
	}
}

// TestInitError checks that the error names the library.
func TestInitError(t *testing.T) {
	f, d := newFake(t)
	if err := d.Init(0); err != nil {
		t.Fatal(err)
	}
	for _, code := range []cu.Result{cu.ErrorNoDevice, cu.ErrorSystemDriverMismatch, cu.ErrorCompatNotSupportedOnDevice} {
		f.on("cuInit", func([]uintptr) cu.Result { return code })
		err := d.Init(0)
		if !errors.Is(err, code) {
			t.Fatalf("error %v, want %v", err, code)
		}
		for _, want := range []string{"/fake/libcuda.so.1", "CUDA 12.4", code.Name()} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not have %q", err, want)
			}
		}
	}
}
