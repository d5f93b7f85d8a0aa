package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
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
		if err != nil || !strings.HasPrefix(text, "what stands for cuFFT on soft:h200") {
			t.Errorf("%v: %v\n%s", schedule, err, text)
		}
	}
}

// TestHardware runs the program on a GPU, by cuFFT.
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
	if err != nil || !strings.HasPrefix(text, "cuFFT 1") {
		t.Errorf("%v\n%s", err, text)
	}
	t.Log(text)
}

const size, signals3 = 60, 3 * size

// opened returns a transformer of 3 signals for the time of the test.
func opened(t *testing.T, gpu *ferry.GPU, lib fft, err error) *transformer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	x, err := newTransformer(gpu, lib, size, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gputest.CloseAll(t, x) })
	return x
}

// TestClose: each buffer that the library uses is in flight, so Close of it waits for the transform.
// All is device memory, because package check believes that the host can learn from page-locked memory
// that a kernel has ended.
func TestClose(t *testing.T) {
	for _, name := range []string{"in", "work", "library"} {
		t.Run(name, func(t *testing.T) {
			gpu := softtest.Open(t, softgpu.Lazy)
			lib, err := newSoftware(gpu, dftPTX)
			x := opened(t, gpu, lib, err)
			data := random(signals3)
			in, err := ferry.Upload(gpu, data)
			if err != nil {
				t.Fatal(err)
			}
			out, err := ferry.Alloc[complex64](gpu, signals3)
			if err != nil {
				t.Fatal(err)
			}
			closing := map[string]func() error{"in": in.Close, "work": x.work.Close, "library": lib.Destroy}[name]
			if err := errors.Join(x.transform(x.stream, in, out, forward), closing()); err != nil {
				t.Fatal(err)
			}
			got, err := ferry.Download(out)
			if err != nil {
				t.Fatal(err)
			}
			checkSpectra(t, data, got)
			gputest.CloseAll(t, in, out)
		})
	}
}

func checkSpectra(t *testing.T, data, got []complex64) {
	t.Helper()
	for at := 0; at < len(data); at += size {
		if off := distance(got[at:at+size], dft(data[at:at+size], roots(size))); !(off <= most) {
			t.Errorf("signal %d is off by %v", at/size, off)
		}
	}
}

// onHost returns page-locked memory with a signal.
func onHost(t *testing.T, gpu *ferry.GPU, data []complex64) *ferry.Host[complex64] {
	t.Helper()
	h, err := ferry.AllocHost[complex64](gpu, len(data), &ferry.HostOptions{Mapped: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gputest.CloseAll(t, h) })
	copy(h.Slice(), data)
	return h
}

// TestInPlace: input and output may be the same memory, also of the host.
func TestInPlace(t *testing.T) {
	gpu := softtest.Open(t, softgpu.Lazy)
	lib, err := newSoftware(gpu, dftPTX)
	x := opened(t, gpu, lib, err)
	data := random(signals3)
	h := onHost(t, gpu, data)
	if err := x.transform(x.stream, h, h, forward); err != nil {
		t.Fatal(err)
	}
	checkSpectra(t, data, h.Slice())
}

// TestCalls: the functions of C get their arguments. A library of this test, in C, transforms on the
// CPU, and refuses a call without the stream, the work area and the plan.
func TestCalls(t *testing.T) {
	t.Setenv(library.Variable, ctest.Library(t, "testdata/fake.c", "libcufft.so.12"))
	gpu := softtest.Open(t, softgpu.Eager)
	l, err := newCUFFT()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Destroy(); err != nil {
		t.Errorf("destroy no plan: %v", err)
	}
	x := opened(t, gpu, l, nil)
	data := random(signals3)
	in, out := onHost(t, gpu, data), onHost(t, gpu, make([]complex64, signals3))
	if err := x.transform(x.stream, in, out, forward); err != nil {
		t.Fatal(err)
	}
	checkSpectra(t, data, out.Slice())
	spectra := slices.Clone(out.Slice())
	if err := x.transform(x.stream, out, in, inverse); err != nil {
		t.Fatal(err)
	}
	if _, err := compare(data, spectra, in.Slice(), size); err != nil {
		t.Error(err)
	}
	if got := l.Version(); got != "cuFFT 12.3.4" {
		t.Errorf("version %q", got)
	}
	for want, err := range map[string]error{
		"cufftExecC2C: cufftResult 99":                        l.ExecC2C(0, 0, forward),
		"cufftExecC2C: CUFFT_INVALID_VALUE":                   errors.Join(l.SetStream(1), l.ExecC2C(0, 0, 2)),
		"cufftExecC2C: CUFFT_NO_WORKSPACE":                    errors.Join(l.SetWorkArea(0), l.ExecC2C(0, 0, forward)),
		"cufftMakePlanMany: CUFFT_INVALID_SIZE":               planError(l, 0, 1),
		"plan: a size of 4294967297 is more than an int of C": planError(l, 1<<32+1, 1),
		"cufftSetStream: CUFFT_INVALID_PLAN":                  (&cuFFT{plan: 6, setStream: l.setStream}).SetStream(1),
		"cufftSetWorkArea: CUFFT_INVALID_PLAN":                (&cuFFT{plan: 6, setWorkArea: l.setWorkArea}).SetWorkArea(1),
		"cufftDestroy: CUFFT_INVALID_PLAN":                    (&cuFFT{plan: 6, destroy: l.destroy}).Destroy(),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// planError plans by another plan of the library.
func planError(l *cuFFT, n, batch int) error {
	other := *l
	other.plan = noPlan
	_, err := other.Plan(n, batch)
	return err
}

// TestMissing: the error without a library says what to do.
func TestMissing(t *testing.T) {
	t.Setenv(library.Variable, "/nowhere/libcufft.so.12")
	_, err := newCUFFT()
	for _, want := range []string{"/nowhere/libcufft.so.12, which FERRY_CUFFT names: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// TestCompiled transforms with what the compiler of this machine makes of dft.cu.
func TestCompiled(t *testing.T) {
	ptx := compiletest.File(t, "dft.cu", nil).PTX
	gpu := softtest.Open(t, softgpu.Eager)
	lib, err := newSoftware(gpu, ptx)
	x := opened(t, gpu, lib, err)
	if _, err := x.run(1); err != nil {
		t.Error(err)
	}
	if _, err := lib.Plan(1, 1); err == nil {
		t.Error("a second plan")
	}
	if _, err := (&software{gpu: gpu}).Plan(0, 1); err == nil {
		t.Error("a plan of no elements")
	}
}

// TestCompare: compare finds one wrong element.
func TestCompare(t *testing.T) {
	data := random(2 * 360)
	var spectra, returned []complex64
	for at := 0; at < len(data); at += 360 {
		for i, v := range dft(data[at:at+360], roots(360)) {
			spectra, returned = append(spectra, complex64(v)), append(returned, data[at+i]*360)
		}
	}
	if worst, err := compare(data, spectra, returned, 360); err != nil || worst.forward > 1e-7 || worst.back > 1e-7 {
		t.Errorf("the right results: %v, %v", worst, err)
	}
	for i := 0; i < len(data); i += 37 {
		wrong := slices.Clone(spectra)
		wrong[i] += 0.1
		_, err := compare(data, wrong, returned, 360)
		wrong = slices.Clone(returned)
		wrong[i] = 0
		if _, back := compare(data, spectra, wrong, 360); err == nil || back == nil {
			t.Fatalf("element %d is wrong: %v, %v", i, err, back)
		}
	}
}
