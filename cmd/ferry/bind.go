package main

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry/internal/bind"
)

var bindCommand = command{
	name:    "bind",
	summary: "write Go code that launches the kernels of a source",
	usage: "bind FILE.cu|FILE.ptx [-o FILE.go] [--package NAME] [--type NAME]\n" +
		"                 [--check] [--ptx FILE.ptx] [--arch sm_80] [--compiler C]\n" +
		"                 [-I DIR] [-D NAME=VALUE] [--lineinfo] [--fast-math]",
	run: bindKernels,
	help: `Compiles FILE.cu to FILE.ptx, and writes FILE_cu.go beside it. The Go file
embeds the PTX. It has a type for the module and a method for each kernel, with
the names and types of the source:

  __global__ void saxpy(int n, float a, const float *x, float *y);

  func (k *Kernels) Saxpy(q ferry.Queue, c ferry.LaunchConfig,
      n int32, a float32, x, y ferry.Memory[float32]) error

It is made for go generate. Write this line into a Go file of the package, and
commit all three files. Who builds the package needs no compiler of CUDA:

  //go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind kernels.cu

Types in Go:
  T *, const T *        ferry.Memory[T]; a launch only reads a pointer to const
  int, long long, ...   int32, int64, ...; long and size_t have 64 bits
  char, bool            int8, bool
  float, double         float32, float64
  half, bfloat16        uint16, the bits
  float4, ...           [4]float32, ...
  enum                  its integer type
  struct                a Go struct with the layout that the compiler tells
  void *, others        cu.DevicePtr, or [N]byte; the method's comment says so

A *ferry.Stream and a *ferry.Batch are queues. const is a promise of the kernel,
which Ferry believes: ReadSlice does not wait for launches that only read. For a
null pointer pass an empty buffer. To launch with other memory, such as an
address of another library, use Module().Kernel and Stream.Launch.

An instance of a template needs an explicit instantiation in the source:
template __global__ void scale<float>(float *, int). The names of arguments and
the comments come from the text of the source and of the files that it includes
by #include "NAME".

With FILE.ptx there is no source. Then only mangled names tell the types. With
--ptx the PTX exists, for example because nvcc made it, and the text of FILE.cu
adds names and the types that C++ itself has. Neither needs a compiler.

flags:
  -o FILE.go       the Go file (FILE_cu.go, or FILE_ptx.go for FILE.ptx); the
                   PTX is written to the same folder
  --package NAME   the package ($GOPACKAGE, else that of the folder)
  --type NAME      the type of the module (Kernels for kernels.cu)
  --arch, --compiler, -I, -D, --lineinfo, --fast-math
                   as for ferry compile
  --ptx FILE.ptx   bind this PTX, do not compile
  --check          write nothing; exit with 1 if the files are stale

--check compares the hashes of the source and of the files it includes by
#include "NAME", of the PTX, of the Go file, and the options, with those that
the Go file records. If they are equal it needs no compiler. Otherwise it
compiles the source and names each argument that differs. It does not compare
PTX with that of the compiler, because compilers differ.
`,
}

// bindKernels implements ferry bind.
func bindKernels(ctx context.Context, s *session) error {
	o, check, err := parseBind(s.args)
	if err != nil {
		return err
	}
	if check {
		return archUsage(bind.Check(ctx, o))
	}
	out, err := bind.Generate(ctx, o)
	if err != nil {
		return archUsage(err)
	}
	for _, w := range out.Warnings {
		fmt.Fprintf(s.stderr, "ferry: %s\n", w)
	}
	for _, note := range out.Notes {
		fmt.Fprintf(s.stderr, "ferry bind: %s\n", note)
	}
	return out.Write()
}

// parseBind reads the command line. All its errors are usage errors.
func parseBind(args []string) (o *bind.Options, check bool, err error) {
	f := newFlags("bind")
	o = &bind.Options{}
	compilerFlags(f, &o.Compile)
	f.StringVar(&o.Out, "o", "", "")
	f.StringVar(&o.Package, "package", "", "")
	f.StringVar(&o.Type, "type", "", "")
	f.StringVar(&o.PTX, "ptx", "", "")
	f.BoolVar(&check, "check", false, "")
	words, err := parse(f, separated(args))
	switch {
	case err != nil:
		return nil, false, err
	case len(words) == 0:
		return nil, false, badUsage("no source was given")
	case len(words) > 1:
		return nil, false, badUsage("%q is not expected here: bind takes one source", words[1])
	}
	o.Source = words[0]
	return o, check, absoluteCompiler(&o.Compile)
}
