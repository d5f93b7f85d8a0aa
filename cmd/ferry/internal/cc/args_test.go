package cc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestParse: flags of clang and of nvcc, and who gets them.
func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"a.cu":                                 "files [a.cu]",
		"a.cu b.cpp c.o -o x":                  "files [a.cu b.cpp c.o] out x link [c.o]",
		"a.cu -O2 -g -I dir -Idir -DX=1 -Wall": "files [a.cu] both [-I dir -Idir -DX=1 -Wall] host [-O2 -g]",
		"a.cu -arch=sm_86":                     "files [a.cu] arch sm_86",
		"a.cu -arch sm_90a --std=c++20":        "files [a.cu] arch sm_90a both [-std=c++20]",
		"a.cu -std=c++11":                      "files [a.cu] both [-std=c++17]",
		"a.cu -arch=native -G -lineinfo":       "files [a.cu]",
		"a.cu --use_fast_math -fmad=false":     "files [a.cu] device [-ffp-contract=off] fast",
		"a.cu -Xcompiler -fopenmp,-Wall -lm":   "files [a.cu] host [-fopenmp -Wall] link [-fopenmp -lm]",
		"a.cu -Xcompiler=-O3 --compiler-options '-march=native -DY'":         "files [a.cu] host [-O3 -march=native -DY] link [-march=native]",
		"a.cu -lcuda -lcudart -L/lib -l z":                                   "files [a.cu] link [-L/lib -lz]",
		"a.cu --default-stream per-thread -c":                                "files [a.cu] object per-thread",
		"a.cu -D CUDA_API_PER_THREAD_DEFAULT_STREAM":                         "files [a.cu] both [-D CUDA_API_PER_THREAD_DEFAULT_STREAM] per-thread",
		"a.cu -Xptxas -v -maxrregcount 32 -ccbin g++ --expt-extended-lambda": "files [a.cu]",
		"a.cu -gencode arch=compute_70,code=sm_70 -gencode=arch=compute_86,code=[sm_86,compute_86] -gencode arch=compute_80,code=sm_80": "files [a.cu] arch sm_86",
		"a.cu -Xlinker -rpath,/x -Wl,-z,now -MF deps": "files [a.cu] host [-MF deps] link [-Xlinker -rpath -Xlinker /x -Wl,-z,now]",
	} {
		o, err := Parse(words(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := describe(o); got != want {
			t.Errorf("%s: got\n  %s, want\n  %s", line, got, want)
		}
	}
}

// words splits a line at spaces outside of quotation marks.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// describe returns what is set in options.
func describe(o *Options) string {
	text := fmt.Sprintf("files %v", o.Files)
	for _, f := range []struct {
		name string
		list []string
	}{{"both", o.both}, {"host", o.host}, {"device", o.device}, {"link", o.link}} {
		if f.name == "both" && o.Output != "" {
			text += " out " + o.Output
		}
		if f.name == "both" && o.Arch != "" {
			text += " arch " + o.Arch
		}
		if len(f.list) > 0 {
			text += fmt.Sprintf(" %s %v", f.name, f.list)
		}
	}
	for word, set := range map[string]bool{" fast": o.FastMath, " object": o.CompileOnly} {
		if set {
			text += word
		}
	}
	if o.PerThread {
		text += " per-thread"
	}
	return text
}

// TestParseFails: what is refused has its name in the error.
func TestParseFails(t *testing.T) {
	for line, want := range map[string]string{
		"":                        "no CUDA file",
		"a.cu -dc":                "relocatable device code",
		"a.cu -rdc true":          "relocatable device code",
		"a.cu -lcufft":            "-lcufft: Ferry has no such library",
		"a.cu -I":                 "-I: a value is missing",
		"a.cu -arch":              "-arch: a value is missing",
		"a.cu -o a.cu":            "has the name of a source",
		"a.cu b.cu -c -o x.o":     "one file is compiled at a time",
		"x.o -c":                  "nothing is to be compiled",
		"a.py":                    "a.py: not a source",
		"a.cu -odir build":        "-odir is not supported",
		"a.cu -odir=build":        "-odir is not supported",
		"a.cu --options-file f":   "-optf is not supported",
		"a.cu -optf f":            "-optf is not supported",
		"a.cu --default-stream x": "want legacy or per-thread",
	} {
		_, err := Parse(words(line))
		if _, usage := errors.AsType[*UsageError](err); !usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

// TestOutputIsInput: no output is written over an input, under whatever name, nor two to one file.
func TestOutputIsInput(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"m.o", "a.cu"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("kept"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("m.o", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for line, want := range map[string]string{
		"m.o -o m.o":             "m.o: is an input",
		"m.o -o " + dir + "/m.o": "/m.o: is an input",
		"a.cu m.o -o link":       "link: is an input",
		"a.cu -c -o lost.cpp":    "has the name of a source",
		"a.cu d/a.cu -c":         "two files would be a.o",
	} {
		_, err := Parse(words(line))
		if _, usage := errors.AsType[*UsageError](err); !usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

// TestMessages: each message of two compilations is shown once, and the marks of managed variables
// never.
func TestMessages(t *testing.T) {
	a := "In file included from a.cu:1:\nh.h:2:3: warning: unused [-Wunused]\n    2 | int x;\n      |     ^\n"
	b := "a.cu:5:1: warning: other\na.cu:4:1: note: here\n"
	mark := "a.cu:9:1: warning: " + managedMark + " [-W#warnings]\n    9 | __managed__ int x;\n"
	first, managed := withoutManaged(a + mark + "2 warnings generated when compiling for sm_80.\n")
	if !managed || first != a {
		t.Errorf("got %q, %v", first, managed)
	}
	if got := merged(first, a+b+"2 warnings generated when compiling for host.\n"); got != a+b {
		t.Errorf("got %q, want %q", got, a+b)
	}
	if _, managed := withoutManaged(b); managed {
		t.Error("a managed variable in a file without one")
	}
}

// TestCommands: the words of commands that clang shows.
func TestCommands(t *testing.T) {
	text := "clang version 19\n \"/usr/bin/clang\" \"-cc1\" \"-x\" \"cuda\" \"a \\\"b\\\\.cu\" \"-x\" \"cuda\" \"f.cu\"\n"
	all := commands(text)
	if len(all) != 1 || len(all[0]) != 8 || all[0][4] != `a "b\.cu` {
		t.Fatalf("got %q", all)
	}
	want := `["-cc1" "-x" "cuda" "a \"b\\.cu" "-fhip-new-launch-api" "-D__CUDA__=1" "-x" "hip" "f.cu"]`
	if got := fmt.Sprintf("%q", asHIP(all[0][1:])); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestListed: the files of a rule that clang writes for make.
func TestListed(t *testing.T) {
	rule := "x.o: a.cu \\\n  /usr/include/b.h my\\ dir/c.h C\\#/d.h a$$b.h\n"
	if got := fmt.Sprintf("%q", listed(rule)); got != `["a.cu" "/usr/include/b.h" "my dir/c.h" "C#/d.h" "a$b.h"]` {
		t.Errorf("got %s", got)
	}
}

// TestShown: a command line that -v shows can be copied into a shell.
func TestShown(t *testing.T) {
	words := []string{"clang++-19", "-DX=\"a b\"", "my dir/it's.cu", "", "-o", "x$y", "-Wl,-z,now", "--a=+b:c@d%e"}
	out, err := exec.Command("sh", "-c", "printf '%s\\n' "+shown(words[1:]...)).Output()
	if err != nil || string(out) != strings.Join(words[1:], "\n")+"\n" {
		t.Errorf("%v, got %q of %s", err, out, shown(words...))
	}
	if got := shown("clang++-19", "-o", "dir/x.o"); got != "clang++-19 -o dir/x.o" {
		t.Errorf("got %s", got)
	}
}
