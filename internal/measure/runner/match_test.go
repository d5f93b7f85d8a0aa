package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const parameters = `.version 7.0
.target sm_75
.address_size 64
.visible .entry mixed(
	.param .u64 buffer,
	.param .u32 count,
	.param .f32 scale,
	.param .u8 flag,
	.param .align 8 .b8 pair[16]
)
{
	ret;
}
.visible .entry nothing()
{
	ret;
}
`

func program(t *testing.T, source string) *Program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.ptx")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Load(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parseArgs(t *testing.T, words ...string) []Arg {
	t.Helper()
	var args []Arg
	for _, w := range words {
		a, err := ParseArg(w)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, a)
	}
	return args
}

func TestCheck(t *testing.T) {
	p := program(t, parameters)
	for _, c := range []struct {
		kernel string
		args   []string
		want   []string // of the error; none for success
	}{
		{"nothing", nil, nil},
		{"nothing", []string{"u32=1"}, []string{"kernel nothing has 0 parameters, but 1 argument was given", "(no parameter)", "u32=1"}},
		{"missing", nil, []string{`kernel "missing" is not in`, "which has the kernels mixed, nothing"}},
		{"mixed", []string{"out:u8=[1]", "u32=1"}, []string{
			"kernel mixed has 5 parameters, but 2 arguments were given", "0  buffer: .u64", "2  scale: .f32", "(no argument)", "16 bytes of .b8"}},
		{"mixed", []string{"out:u8=[1]", "u64=5", "f64=1", "in:u8=1", "b64=1"}, []string{
			"the arguments do not fit kernel mixed",
			"u64 has 8 bytes, but the parameter has 4: write u32=5",
			"f64 has 8 bytes, but the parameter has 4: write f32=1",
			"a buffer is passed by its address, 8 bytes, but the parameter has 1",
			"the parameter is a structure of 16 bytes: write struct=TYPE:VALUE",
		}},
	} {
		err := (&Spec{Program: p, Kernel: c.kernel, Args: parseArgs(t, c.args...)}).Check()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s %q: got %v", c.kernel, c.args, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: got\n%v\nwant it to say %q", c.kernel, c.args, err, want)
			}
		}
	}
}

// TestStructFile: a structure by value can be the bytes of a file.
func TestStructFile(t *testing.T) {
	p := program(t, parameters)
	file := filepath.Join(t.TempDir(), "struct.bin")
	check := func(bytes int, want string) *Spec {
		t.Helper()
		data := make([]byte, bytes)
		for i := range data {
			data[i] = byte(i + 1)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &Spec{Program: p, Kernel: "mixed", Args: parseArgs(t, "out:u8=[1]", "u32=1", "f32=1", "u8=1", "struct=@"+file)}
		if err := s.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %v, want %q", bytes, err, want)
		}
		return s
	}
	if got := check(16, "").Args[4].Value(); got != [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16} {
		t.Errorf("got %v", got)
	}
	check(15, "the structure has 15 bytes, but the parameter has 16")
	check(0, "is empty")
	check(40000, "at most 32764")
	if _, err := ParseArg("struct=@"); err == nil || !strings.Contains(err.Error(), "no file name") {
		t.Errorf("without a name: %v", err)
	}
	s := &Spec{Program: p, Kernel: "mixed", Args: parseArgs(t, "out:u8=[1]", "u32=1", "f32=1", "u8=1", "struct=@"+file+".absent")}
	if err := s.Check(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestTypeWarnings(t *testing.T) {
	p := program(t, parameters)
	f, err := p.kernel("mixed")
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]int{
		"out:u8=[1] u32=1 f32=1 u8=1 b8=1":  0,
		"out:u8=[1] s32=1 b32=1 b8=1 b8=1":  0,
		"out:u8=[1] f32=1 s32=1 u8=1 b8=1":  2,
		"u64=0 b32=1 u32=1 s8=1 b8=1":       1,
		"out:f32=[1] u32=1 f32=1 u8=1 u8=1": 0,
	} {
		if got := typeWarnings(f, parseArgs(t, strings.Fields(words)...)); len(got) != want {
			t.Errorf("%s: got %q, want %d", words, got, want)
		}
	}
}

func TestLoadShowsError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.ptx")
	if err := os.WriteFile(path, []byte(strings.Replace(parameters, "\tret;", "\tret ret;", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(t.Context(), path, 0)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"bad.ptx:12:", "\tret ret;", "^"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant it to say %q", err, want)
		}
	}
}

func TestProgramLine(t *testing.T) {
	p := &Program{Source: "one\n\ttwo\nthree"}
	for n, want := range map[int]string{-1: "", 0: "", 1: "one", 2: "two", 3: "three", 4: ""} {
		if got := p.line(n); got != want {
			t.Errorf("line %d: got %q, want %q", n, got, want)
		}
	}
}

func TestFindKernel(t *testing.T) {
	names := []string{"plain", "_Z5scaleifPKfPf", "_Z4sortIfEvPT_", "_Z4sortIdEvPT_", "_Z6scalesv"}
	for name, want := range map[string]string{"plain": "plain", "scale": "_Z5scaleifPKfPf", "scales": "_Z6scalesv", "_Z4sortIfEvPT_": "_Z4sortIfEvPT_"} {
		if got, err := FindKernel(names, name); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"sort": "several of that name: _Z4sortIfEvPT_, _Z4sortIdEvPT_", "scal": "has the kernels plain, ", "": "has the kernels plain, "} {
		if got, err := FindKernel(names, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v, want an error that says %q", name, got, err, want)
		}
	}
}
