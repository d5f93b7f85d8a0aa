package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/outfile"
)

// compileOptions are the flags of "ferry compile" and its file.
type compileOptions struct {
	file, out string
	json      bool
	options   compile.Options
}

// newCompile returns the command "ferry compile".
func newCompile(s *session) *cobra.Command {
	o := &compileOptions{}
	c := &cobra.Command{
		Use: "compile FILE.cu [--arch sm_80] [-o FILE.ptx] [--compiler C]\n" +
			"                     [-I DIR] [-D NAME=VALUE] [--lineinfo] [--fast-math]\n" +
			"                     [--json]",
		Short: "compile CUDA C++ to PTX, with NVRTC or clang",
		Long: `Compiles a file to PTX, which every GPU of the architecture and newer ones runs,
and the software GPU. Shows the kernels with their parameters as PTX types: a
pointer is u64, a structure is b8[BYTES].

It needs NVRTC, NVIDIA's compiler library, or a clang of version 14 or newer. No
CUDA toolkit is needed: Ferry's headers declare first what nvcc gives every
source, such as threadIdx, float4 and sqrtf. Others need a line, as with nvcc:
#include <cuda_fp16.h>, or #include "ferry.h" for all. Errors show the line and
a caret below the place.

The file may be a whole program. With clang, the headers of C and C++ are the
system's where they are installed. Host code is checked and dropped. What does
not compile of it, and headers that only host code needs, are left out with a
warning, and never stop the device code. A template is compiled for the launches
in the host code.

environment:
  FERRY_NVRTC     the absolute path of a libnvrtc, the only one that is tried
  FERRY_CLANG     the absolute path of a clang, or its name on PATH

Relative and empty elements of PATH and LD_LIBRARY_PATH are not searched. The
exit status is 1 if the file has errors. Then the old output stays. With --json
the document has these errors. Another failure, such as no compiler, has no
document.
`,
		Example:           "  ferry compile kernels.cu\n  ferry compile kernels.cu --arch sm_90 -o - --lineinfo",
		ValidArgsFunction: completeFiles("cu"),
		RunE: func(c *cobra.Command, words []string) error {
			if err := o.check(words); err != nil {
				return err
			}
			return compileFile(c.Context(), s, o)
		},
	}
	c.Flags().StringVarP(&o.out, "output", "o", "", "the output `FILE`, - for standard output (FILE.ptx beside the source)")
	compilerFlags(c, &o.options)
	jsonFlag(c, &o.json, "schema ferry.compile/1")
	return c
}

// compilerFlags adds the flags that "ferry compile" and "ferry bind" share.
func compilerFlags(c *cobra.Command, o *compile.Options) {
	f := c.Flags()
	f.StringVar(&o.Arch, "arch", "", "the GPU architecture `A`: sm_80, 80, 8.0 or compute_80 (sm_80)")
	f.StringVar(&o.Compiler, "compiler", "", "the compiler `C`: nvrtc, clang, clang-NN, or the path of a clang or a libnvrtc "+
		"(NVRTC if there is one, else clang, else the newest clang-NN)")
	f.StringArrayVarP(&o.Include, "include", "I", nil, "`DIR` searched for #include, after the directory of the file; may be given several times")
	f.StringArrayVarP(&o.Define, "define", "D", nil, "a macro, `NAME[=VALUE]`; may be given several times")
	f.BoolVar(&o.LineInfo, "lineinfo", false, "add source lines, which the software GPU shows at a fault")
	f.BoolVar(&o.FastMath, "fast-math", false, "approximate and less exact arithmetic")
	complete(c, "arch", func() []cobra.Completion {
		return []string{"sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120"}
	})
	complete(c, "compiler", func() []cobra.Completion { return []string{"nvrtc", "clang"} })
}

// check reads the words of the command line. Its errors are usage errors, and that of an output
// that cannot be written.
func (o *compileOptions) check(words []string) error {
	switch {
	case len(words) == 0:
		return badUsage("no CUDA file was given")
	case len(words) > 1:
		return badUsage("%q is not expected here: one file is compiled at a time", words[1])
	case o.out == "-" && o.json:
		return badUsage("-o - and --json: both write standard output")
	}
	o.file = words[0]
	if isPTX(o.file) {
		return badUsage("%s is PTX already%s", o.file, ask(fileCommand(o.file)))
	}
	if o.out == "" {
		o.out = strings.TrimSuffix(o.file, filepath.Ext(o.file)) + ".ptx"
	}
	if o.out != "-" && outfile.Same(o.file, o.out) {
		return badUsage("-o %s: is the source", o.out)
	}
	if err := absoluteCompiler(&o.options); err != nil {
		return err
	}
	return o.writable()
}

// writable returns an error if the output could not be written, before the compiler runs. A
// source that is not there is the first error.
func (o *compileOptions) writable() error {
	if _, err := os.Stat(o.file); err != nil || o.out == "-" {
		return nil
	}
	return outfile.Check(o.out)
}

// compileFile implements "ferry compile".
func compileFile(ctx context.Context, s *session, o *compileOptions) error {
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
		s.say("%s", report.Page().Text(0))
		return s.write(r.PTX)
	}
	if err := outfile.Write(o.out, r.PTX); err != nil {
		return err
	}
	return s.writeReport(report, o.json)
}

// failedJSON writes the document of a file that does not compile.
func (s *session) failedJSON(o *compileOptions, e *compile.Error) error {
	r := &compileReport{Schema: compileSchema, File: o.file, Compiler: e.Compiler, Arch: e.Arch,
		Kernels: []compiledKernel{}, Warnings: []compile.Diagnostic{}, Diagnostics: notNil(e.Diagnostics), More: e.More}
	return s.writeReport(r, true)
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

// notNil returns an empty slice for nil, which JSON has as [].
func notNil[T any](all []T) []T { return append([]T{}, all...) }
