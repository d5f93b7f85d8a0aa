package cufile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/dl/dltest"
)

// fake stands for the library. It writes C's structs.
type fake struct {
	failing string // a function that returns error 5011, with a CUresult in the upper half
	nvfs    [6]uint64
	calls   []string
}

func (l *fake) call(name string, args ...uintptr) (uintptr, error) {
	l.calls = append(l.calls, name)
	if name == l.failing {
		return 5011 | 3<<32, nil
	}
	switch name {
	case "cuFileGetVersion":
		*(*int32)(at(args[0])) = 1160
	case "cuFileDriverGetProperties":
		p := (*struct {
			major, minor  uint32
			poll, direct  uint64
			systems, bits uint32
			features      uint32
		})(at(args[0]))
		p.major, p.minor, p.poll, p.direct = uint32(l.nvfs[0]), uint32(l.nvfs[1]), l.nvfs[2], l.nvfs[3]
		p.systems, p.bits, p.features = uint32(l.nvfs[4]), uint32(l.nvfs[5]), 0xffffffff
	}
	return 7 << 32, nil // the upper half is the CUresult, which has no meaning after success
}

// at returns an argument as a pointer.
func at(arg uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&arg)) }

// TestAsk: the fields of C's struct, and the calls.
func TestAsk(t *testing.T) {
	l := &fake{nvfs: [6]uint64{2, 26, 4, 16384, 1 << 4, 1 << 1}}
	f, err := ask(l.call)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Driver{Major: 2, Minor: 26, MaxDirect: 16384, FileSystems: 16, Compatibility: true}); f.Version != 1160 || f.Driver != want {
		t.Errorf("got %+v, want %+v", f, want)
	}
	if !f.Direct() || !strings.Contains(f.String(), "cuFile 1.16 (): direct, by nvidia-fs 2.26") {
		t.Errorf("direct %t: %v", f.Direct(), f)
	}
	want := []string{"cuFileGetVersion", "cuFileDriverOpen", "cuFileDriverGetProperties", "cuFileDriverClose"}
	if !slices.Equal(l.calls, want) {
		t.Errorf("calls %v", l.calls)
	}
}

// TestAskFails: each function that fails ends the probe with its name, and an open driver is closed.
func TestAskFails(t *testing.T) {
	for _, name := range []string{"cuFileGetVersion", "cuFileDriverOpen", "cuFileDriverGetProperties", "cuFileDriverClose"} {
		l := &fake{failing: name}
		_, err := ask(l.call)
		if s, ok := errors.AsType[*statusError](err); !ok || s.code != 5011 || s.function != name {
			t.Errorf("%s fails: error %v", name, err)
		}
		if opened := slices.Contains(l.calls, "cuFileDriverGetProperties"); opened != slices.Contains(l.calls, "cuFileDriverClose") {
			t.Errorf("%s fails: calls %v", name, l.calls)
		}
	}
}

// TestModule: what the file of the kernel module says.
func TestModule(t *testing.T) {
	for text, want := range map[string]string{"version: 2.22.3\n": "2.22.3", "GDS\n": "of unknown version", "": "of unknown version"} {
		if got := Module(fstest.MapFS{"proc/driver/nvidia-fs/version": {Data: []byte(text)}}); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Module(fstest.MapFS{}); got != "" {
		t.Errorf("without the module: %q", got)
	}
}

// TestString: both reasons for compatibility mode.
func TestString(t *testing.T) {
	for module, want := range map[string]string{"": "the kernel module nvidia-fs is not loaded", "2.22": "nvidia-fs 2.22 is loaded and knows no file system"} {
		if text := (&Facts{Version: 1010, Module: module}).String(); !strings.Contains(text, "cuFile 1.1 ") || !strings.Contains(text, want) {
			t.Errorf("%q: %s", module, text)
		}
	}
}

// installed installs a library with the functions of cuFile, whose driver opens with a status.
func installed(t *testing.T, status int32) (path string) {
	root := t.TempDir()
	t.Setenv("CUDA_PATH", root)
	t.Chdir(t.TempDir()) // for the log of a real library
	return (&dltest.Library{Functions: []dltest.Function{
		{Name: "cuFileGetVersion", Stores: []int32{1160}}, {Name: "cuFileDriverOpen", Result: status},
		{Name: "cuFileDriverGetProperties", Stores: []int32{2}}, {Name: "cuFileDriverClose"},
	}}).Write(t, filepath.Join(root, "lib64"), "libcufile.so.0")
}

// TestProbe: a library is found and asked, and what it refuses is an error with its path.
func TestProbe(t *testing.T) {
	if !dl.Supported {
		if _, err := Probe(os.DirFS("/")); !errors.Is(err, dl.ErrPlatform) {
			t.Error(err)
		}
		return
	}
	path := installed(t, 0)
	f, err := Probe(fstest.MapFS{"proc/driver/nvidia-fs/version": {Data: []byte("version: 2.22.3\n")}})
	if err == nil && f.Path != path || err != nil && !strings.Contains(err.Error(), path) {
		t.Skipf("the system has a library, which is asked first: %v, %v", f, err)
	}
	if want := (Facts{Path: path, Version: 1160, Driver: Driver{Major: 2}, Module: "2.22.3"}); err != nil || *f != want {
		t.Errorf("%+v, %v, want %+v", f, err, want)
	}
	path = installed(t, 5011)
	f, err = Probe(fstest.MapFS{})
	if s, ok := errors.AsType[*statusError](err); f != nil || !ok || s.code != 5011 || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, %v, want error 5011 of %s", f, err, path)
	}
}
