package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferrygpu/ferry/compile"
)

var compileCommand = command{
	name:    "compile",
	summary: "compile CUDA C++ to PTX, with NVRTC or clang",
	usage: "compile FILE.cu [--arch sm_80] [-o FILE.ptx] [--compiler C]\n" +
		"                     [-I DIR] [-D NAME=VALUE] [--lineinfo] [--fast-math]\n" +
		"                     [--json]",
	run: compileFile,
	help: `Compiles a file to PTX, which every GPU of the architecture and newer ones runs,
and the software GPU. Shows the kernels with their parameters as PTX types: a
pointer is u64, a structure is b8[BYTES].

It needs NVRTC, NVIDIA's compiler library, or a clang of version 14 or newer. No
CUDA toolkit is needed: Ferry's headers declare first what nvcc gives every
source, such as threadIdx, float4 and sqrtf. Others need a line, as with nvcc:
#include <cuda_fp16.h>, or #include "ferry.h" for all. Errors show the line and
a caret below the place.

flags:
  --arch A        the GPU architecture: sm_80, 80, 8.0 or compute_80 (sm_80)
  -o FILE         the output, - for standard output (FILE.ptx beside the source)
  --compiler C    nvrtc, clang, clang-NN, or the path of a clang or a libnvrtc
                  (NVRTC if there is one, else clang, else the newest clang-NN)
  -I DIR          searched for #include, after the directory of the file; may
                  be given several times
  -D NAME[=VALUE] a macro; may be given several times
  --lineinfo      add source lines, which the software GPU shows at a fault
  --fast-math     approximate and less exact arithmetic
  --json          one JSON document, schema ferry.compile/1

environment:
  FERRY_NVRTC     the absolute path of a libnvrtc, the only one that is tried
  FERRY_CLANG     the absolute path of a clang, or its name on PATH

Relative and empty elements of PATH and LD_LIBRARY_PATH are not searched. The
exit status is 1 if the file has errors. Then the old output stays. With --json
the document has these errors. Another failure, such as no compiler, has no
document.
`,
}

// compileOptions is the command line of "ferry compile".
type compileOptions struct {
	file, out string
	json      bool
	options   compile.Options
}

func compileFile(ctx context.Context, s *session) error {
	o, err := parseCompile(s.args)
	if err != nil {
		return err
	}
	r, err := compile.File(ctx, o.file, &o.options)
	if e, ok := errors.AsType[*compile.Error](err); ok && o.json {
		return firstError(s.failedJSON(o, e), err)
	}
	if err != nil {
		return archUsage(err)
	}
	report := newCompileReport(o, r)
	for _, w := range r.Warnings {
		s.warnings = append(s.warnings, w.String())
	}
	if o.out == "-" {
		fmt.Fprint(s.stderr, report.Text())
		return s.write(r.PTX)
	}
	if err := writeAtomic(o.out, r.PTX); err != nil {
		return err
	}
	return s.writeDocument(report, o.json)
}

// failedJSON writes the document of a file that does not compile.
func (s *session) failedJSON(o *compileOptions, e *compile.Error) error {
	r := &compileReport{Schema: compileSchema, File: o.file, Compiler: e.Compiler, Arch: e.Arch,
		Kernels: []compiledKernel{}, Warnings: []compile.Diagnostic{}, Diagnostics: notNil(e.Diagnostics), More: e.More}
	text, err := r.JSON()
	if err != nil {
		return err
	}
	return s.write(text)
}

// parseCompile reads the command line. All its errors are usage errors.
func parseCompile(args []string) (*compileOptions, error) {
	f := newFlags("compile")
	o := &compileOptions{}
	compilerFlags(f, &o.options)
	f.StringVar(&o.out, "o", "", "")
	f.BoolVar(&o.json, "json", false, "")
	words, err := parse(f, separated(args))
	switch {
	case err != nil:
		return nil, err
	case len(words) == 0:
		return nil, badUsage("no CUDA file was given")
	case len(words) > 1:
		return nil, badUsage("%q is not expected here: one file is compiled at a time", words[1])
	case o.out == "-" && o.json:
		return nil, badUsage("-o - and --json: both write standard output")
	}
	o.file = words[0]
	if o.out == "" {
		o.out = strings.TrimSuffix(o.file, filepath.Ext(o.file)) + ".ptx"
	}
	if sameFile(o.file, o.out) {
		return nil, badUsage("-o %s: is the source", o.out)
	}
	return o, absoluteCompiler(&o.options)
}

// compilerFlags adds the flags that "ferry compile" and "ferry bind" share.
func compilerFlags(f *flag.FlagSet, o *compile.Options) {
	f.StringVar(&o.Arch, "arch", "", "")
	f.StringVar(&o.Compiler, "compiler", "", "")
	f.Func("I", "", func(dir string) error { o.Include = append(o.Include, dir); return nil })
	f.Func("D", "", func(macro string) error { o.Define = append(o.Define, macro); return nil })
	f.BoolVar(&o.LineInfo, "lineinfo", false, "")
	f.BoolVar(&o.FastMath, "fast-math", false, "")
}

// absoluteCompiler makes the path of a compiler absolute. A name stays a name.
func absoluteCompiler(o *compile.Options) (err error) {
	if path := o.Compiler; path != filepath.Base(path) && path != "" {
		o.Compiler, err = filepath.Abs(path)
	}
	return err
}

// archUsage returns a usage error for what is no name of an architecture, and other errors
// as they are.
func archUsage(err error) error {
	if e, ok := errors.AsType[*compile.ArchError](err); ok && e.Compiler == "" {
		return badUsage("--arch: %v", e)
	}
	return err
}

// separated splits flags such as -Idir and -DNAME=1, as compilers take them, in two.
func separated(args []string) (all []string) {
	for i, a := range args {
		if a == "--" {
			return append(all, args[i:]...)
		}
		if len(a) > 2 && (a[:2] == "-I" || a[:2] == "-D") && a[2] != '=' {
			all = append(all, a[:2], a[2:])
			continue
		}
		all = append(all, a)
	}
	return all
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	ia, err := os.Stat(a)
	if err != nil {
		return false
	}
	ib, err := os.Stat(b)
	return err == nil && os.SameFile(ia, ib)
}

// writeAtomic writes a file so that it is there whole, or as it was. A file that is not
// regular, such as a pipe, is written as it is.
func writeAtomic(path string, data []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return fmt.Errorf("write %s: is a directory", path)
		}
		return os.WriteFile(path, data, 0o666)
	}
	err := replaceFile(path, data)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("write %s: %w", path, e.Err) // without the name of the temporary file
	}
	return err
}

// replaceFile writes a file beside a path, then renames it.
func replaceFile(path string, data []byte) error {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	err = firstError(err, next.Chmod(fileMode(path)), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		os.Remove(next.Name())
	}
	return err
}

// fileMode returns the permissions of a file, or those of a new one.
func fileMode(path string) os.FileMode {
	if info, err := os.Stat(path); err == nil {
		return info.Mode().Perm()
	}
	return 0o644
}

// notNil returns an empty slice for nil, which JSON has as [].
func notNil[T any](all []T) []T { return append([]T{}, all...) }
