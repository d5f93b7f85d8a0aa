package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/ctest"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/softtest"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestProgram runs the program on the software GPU. The schedule lazy does work as late as it may, so
// the results are wrong if External does not know a use.
func TestProgram(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		text, err := run(softtest.Open(t, schedule))
		if err != nil || !strings.HasPrefix(text, "what stands for cuBLAS on soft:h200") {
			t.Errorf("%v: %v\n%s", schedule, err, text)
		}
	}
}

// TestHardware runs the program on a GPU, by cuBLAS.
func TestHardware(t *testing.T) {
	gputest.Driver(t)
	gpu, err := ferry.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	text, err := run(gpu)
	if err != nil && strings.Contains(err.Error(), library.Variable) {
		gputest.Skip(t, err)
	}
	if err != nil || !strings.HasPrefix(text, "cuBLAS 1") {
		t.Errorf("%v\n%s", err, text)
	}
	t.Log(text)
}

// TestClose: each buffer that the library uses is in flight, so Close of it waits for the product. All
// is device memory, because package check believes that the host can learn from page-locked memory
// that a kernel has ended.
func TestClose(t *testing.T) {
	for name, closing := range map[string]func(*multiplier, *product) error{
		"a":         func(_ *multiplier, p *product) error { return p.a.Close() },
		"b":         func(_ *multiplier, p *product) error { return p.b.Close() },
		"workspace": func(x *multiplier, _ *product) error { return x.workspace.Close() },
		"library":   func(x *multiplier, _ *product) error { return x.lib.Destroy() },
	} {
		t.Run(name, func(t *testing.T) {
			gpu := softtest.Open(t, softgpu.Lazy)
			x := opened(t, gpu, func() (blas, error) { return newSoftware(gpu, sgemmPTX) })
			host := newMatrices(7, 5, 11)
			c, err := ferry.Upload(gpu, host.c)
			if err != nil {
				t.Fatal(err)
			}
			p, err := x.upload(host, c)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(x.multiply(x.stream, p), closing(x, p)); err != nil {
				t.Fatal(err)
			}
			got, err := ferry.Download(c)
			if err == nil {
				_, err = host.compare(got)
			}
			if err != nil {
				t.Error(err)
			}
			gputest.CloseAll(t, p, c)
		})
	}
}

// opened returns a multiplier for the time of the test.
func opened(t *testing.T, gpu *ferry.GPU, library func() (blas, error)) *multiplier {
	t.Helper()
	lib, err := library()
	if err != nil {
		t.Fatal(err)
	}
	x, err := newMultiplier(gpu, lib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gputest.CloseAll(t, x) })
	return x
}

// onHost returns a product whose matrices are page-locked memory.
func onHost(t *testing.T, gpu *ferry.GPU, library func() (blas, error)) (*multiplier, *product, *matrices) {
	t.Helper()
	x := opened(t, gpu, library)
	host := newMatrices(7, 5, 11)
	p := &product{m: host.m, n: host.n, k: host.k, alpha: host.alpha, beta: host.beta}
	for to, from := range map[*matrix][]float32{&p.a: host.a, &p.b: host.b, &p.c: host.c} {
		h, err := ferry.AllocHost[float32](gpu, len(from), &ferry.HostOptions{Mapped: true})
		if err != nil {
			t.Fatal(err)
		}
		copy(h.Slice(), from)
		*to = h
		t.Cleanup(func() { gputest.CloseAll(t, h) })
	}
	return x, p, host
}

// TestCalls: the functions of C get their arguments. A library of this test, in C, multiplies on the
// CPU, and refuses a call without the stream and the workspace.
func TestCalls(t *testing.T) {
	t.Setenv(library.Variable, ctest.Library(t, "testdata/fake.c", "libcublas.so.13"))
	gpu := softtest.Open(t, softgpu.Eager)
	x, p, host := onHost(t, gpu, func() (blas, error) { return newCUBLAS(gpu) })
	if err := x.multiply(x.stream, p); err != nil {
		t.Fatal(err)
	}
	if _, err := host.compare(p.c.(*ferry.Host[float32]).Slice()); err != nil {
		t.Error(err)
	}
	if got := x.lib.Version(); got != "cuBLAS 13.2.3" {
		t.Errorf("version %q", got)
	}
	p.m = -1
	if err := x.multiply(x.stream, p); err == nil || !strings.HasSuffix(err.Error(), "cublasSgemm: CUBLAS_STATUS_INVALID_VALUE") {
		t.Errorf("a negative size: %v", err)
	}
	if err := x.lib.Sgemm(1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1); err == nil || err.Error() != "cublasSgemm: CUBLAS_STATUS_INTERNAL_ERROR" {
		t.Errorf("no stream: %v", err)
	}
	if err := x.lib.Sgemm(1, 1<<32+1, 1, 1, 0, 1, 0, 1, 1, 0, 1); err == nil || !strings.Contains(err.Error(), "4294967297 is more than an int of C") {
		t.Errorf("a large size: %v", err)
	}
	l := *x.lib.(*cuBLAS)
	l.handle = 0
	for name, err := range map[string]error{"Destroy": l.Destroy(), "SetStream": l.SetStream(1), "SetWorkspace": l.SetWorkspace(256, 1)} {
		if want := fmt.Sprintf("cublas%s: CUBLAS_STATUS_NOT_INITIALIZED", name); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestMissing: the error without a library says what to do.
func TestMissing(t *testing.T) {
	path := t.TempDir() + "/libcublas.so.13"
	t.Setenv(library.Variable, path)
	_, err := newCUBLAS(softtest.Open(t, softgpu.Eager))
	for _, want := range []string{path + ", which FERRY_CUBLAS names: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newCUBLAS(softtest.Open(t, softgpu.Eager)); err == nil {
		t.Error("an empty file was opened")
	}
}

// TestSoftware: what stands for the library refuses what the library does.
func TestSoftware(t *testing.T) {
	l, err := newSoftware(softtest.Open(t, softgpu.Eager), sgemmPTX)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Destroy()
	if err := l.SetWorkspace(128, 1000); err == nil {
		t.Error("a workspace at 128 is accepted")
	}
	if err := errors.Join(l.SetWorkspace(256, 1000), l.SetStream(cu.StreamLegacy)); err != nil {
		t.Fatal(err)
	}
	if err := l.Sgemm(1, 1, 1, 1, 0, 1, 0, 1, 0, 0, 1); err == nil || !strings.Contains(err.Error(), "the workspace has 0 bytes") {
		t.Errorf("a product without workspace: %v", err)
	}
}

// TestCompiled multiplies with what the compiler of this machine makes of sgemm.cu.
func TestCompiled(t *testing.T) {
	ptx := compiletest.File(t, "sgemm.cu", nil).PTX
	gpu := softtest.Open(t, softgpu.Eager)
	x, p, host := onHost(t, gpu, func() (blas, error) { return newSoftware(gpu, ptx) })
	if err := x.multiply(x.stream, p); err != nil {
		t.Fatal(err)
	}
	if _, err := host.compare(p.c.(*ferry.Host[float32]).Slice()); err != nil {
		t.Error(err)
	}
}

// TestCompare: compare finds one wrong element.
func TestCompare(t *testing.T) {
	host := &matrices{m: 2, n: 2, k: 1, alpha: 2, beta: 3, a: []float32{1, 2}, b: []float32{3, 4}, c: []float32{1, 1, 1, 1}}
	right := []float32{9, 11, 15, 19}
	if worst, err := host.compare(right); err != nil || worst != 0 {
		t.Errorf("the right product: %v, %v", worst, err)
	}
	for i := range right {
		wrong := append([]float32(nil), right...)
		wrong[i] += 2e-5
		if _, err := host.compare(wrong); err == nil {
			t.Errorf("element %d is %v, and compare does not see it", i, wrong[i])
		}
	}
}
