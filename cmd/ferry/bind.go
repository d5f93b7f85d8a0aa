package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/bind"
)

// newBind returns the command "ferry bind".
func newBind(s *session) *cobra.Command {
	o, check := &bind.Options{}, false
	c := &cobra.Command{
		Use: "bind FILE.cu|FILE.ptx [-o FILE.go] [--package NAME] [--type NAME]\n" +
			"                 [--check] [--ptx FILE.ptx] [--arch sm_80] [--compiler C]\n" +
			"                 [-I DIR] [-D NAME=VALUE] [--lineinfo] [--fast-math]",
		Short: "write Go code that launches the kernels of a source",
		Long: `Compiles FILE.cu to FILE.ptx, and writes FILE_cu.go beside it. The Go file
embeds the PTX. It has a type for the module and a method for each kernel, with
the names and types of the source:

  __global__ void saxpy(int n, float a, const float *x, float *y);

  func (k *Kernels) Saxpy(q ferry.Queue, c ferry.LaunchConfig,
      n int32, a float32, x, y ferry.Memory[float32]) error

It is made for go generate. Add the command to the module once, with
go get -tool github.com/ferrygpu/ferry/cmd/ferry. Write this line into a Go file
of the package, and commit all three files. Who builds the package needs no
compiler of CUDA:

  //go:generate go tool ferry bind kernels.cu

Types in Go:
  T *, const T *        ferry.Memory[T]; a launch only reads a pointer to const
  int, long long, ...   int32, int64, ...; long and size_t have 64 bits
  char, bool            int8, bool; uint8 for a bool behind a pointer
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

--check compares the hashes of the source and of the files it includes by
#include "NAME", of the PTX, of the Go file, and the options, with those that
the Go file records. If they are equal it needs no compiler. Otherwise it
compiles the source and names each argument that differs. It does not compare
PTX with that of the compiler, because compilers differ.
`,
		Example:           "  ferry bind kernels.cu\n  ferry bind kernels.cu --check",
		Annotations:       map[string]string{keepsNothing: "yes"},
		ValidArgsFunction: completeFiles("cu", "ptx"),
		RunE: func(c *cobra.Command, words []string) error {
			if err := checkBind(o, words); err != nil {
				return err
			}
			return bindKernels(c.Context(), s, o, check)
		},
	}
	bindFlags(c, o, &check)
	return c
}

// bindFlags adds the flags of "ferry bind".
func bindFlags(c *cobra.Command, o *bind.Options, check *bool) {
	f := c.Flags()
	f.StringVarP(&o.Out, "output", "o", "", "the Go file, `FILE.go` (FILE_cu.go, or FILE_ptx.go for FILE.ptx); the PTX is written to the same folder")
	f.StringVar(&o.Package, "package", "", "the package `NAME` ($GOPACKAGE, else that of the folder)")
	f.StringVar(&o.Type, "type", "", "the `NAME` of the module's type (Kernels for kernels.cu)")
	compilerFlags(c, &o.Compile)
	f.StringVar(&o.PTX, "ptx", "", "bind this PTX, `FILE.ptx`, do not compile")
	f.BoolVar(check, "check", false, "write nothing; exit with 1 if the files are stale")
}

// checkBind reads the words of the command line. All its errors are usage errors.
func checkBind(o *bind.Options, words []string) error {
	switch {
	case len(words) == 0:
		return badUsage("no source was given")
	case len(words) > 1:
		return badUsage("%q is not expected here: bind takes one source", words[1])
	}
	o.Source = words[0]
	return absoluteCompiler(&o.Compile)
}

// bindKernels implements ferry bind.
func bindKernels(ctx context.Context, s *session, o *bind.Options, check bool) error {
	if check {
		return archUsage(bind.Check(ctx, o))
	}
	out, err := bind.Generate(ctx, o)
	if err != nil {
		return archUsage(err)
	}
	for _, w := range out.Warnings {
		s.say("ferry: %s\n", w)
	}
	for _, note := range out.Notes {
		s.say("ferry bind: %s\n", note)
	}
	return out.Write()
}
