package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/measure/runner"
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu"
)

// launchOptions are the flags of "ferry run".
type launchOptions struct {
	device              string
	kernel, grid, block string
	shared              uint
	stack               uint
	memory              string
	seed                uint64
	json, bits          bool
	check               string        // a list of checks
	limit               time.Duration // of the kernel
}

// newRun returns the command "ferry run".
func newRun(s *session) *cobra.Command {
	o := &launchOptions{}
	c := &cobra.Command{
		Use: "run FILE.ptx --kernel K --grid X[,Y[,Z]] --block X[,Y[,Z]]\n" +
			"                 [--shared BYTES] [--stack BYTES] [--seed N]\n" +
			"                 [--memory device|mapped|managed]\n" +
			"                 [--bits] [--check[=LIST]] [--limit TIME] [--device D] [--json]\n" +
			"                 ARG...",
		Short: "launch a kernel from a PTX file",
		Long: `Launches a kernel with the given arguments, in the order of its parameters.
Shows its output buffers, the time it took and how many threads ran per second.

A scalar is TYPE=VALUE, a buffer in:TYPE=DATA, inout:TYPE=DATA or out:TYPE=[N]:

  u32=7  s64=-1  f32=0.5  b16=0x3c00      scalars
  struct=f32:0.5,u32:7,8                  a structure by value, see below
  struct=@FILE                            its raw bytes, little-endian
  in:f32=1,2,3                            values
  in:u8=@FILE                             raw bytes of a file, little-endian
  in:f32=iota[1024]                       0, 1, 2, ...
  in:f32=random[1024]                     random numbers from --seed, see below
  in:f32=random[1024]:-1..1               the same, from -1 to 1
  in:f32=whole[1024]:-8..8                random integers, exact in any type
  in:f32=random[480*640]                  a product as the number of elements
  out:f32=[16]                            zeros, shown after the launch
  inout:f32=@FILE                         data, shown after the launch

Types are u8 u16 u32 u64, s8 to s64, b8 to b64 (bit patterns), f16, bf16, f32
and f64. Integers may be 0x.., 0o.. or 0b..; floats may be inf, -inf or nan.
Decimal numbers are rounded once, to the nearest, ties to even. iota wraps
around in integers and rounds in floats. A field of a structure without a type
has the type of the field before it. Fields are aligned to their size, as in C.

random: element i of the buffer for parameter p, both counted from 0, comes from
number i of SplitMix64. Its state is number p of SplitMix64 with state N, the
seed. An integer of B bits is the top B bits of the number. A float is k/2^P in
[0,1), where k is the top P bits; P is 11 for f16, 8 for bf16, 24 for f32 and 53
for f64. With limits, an integer is LOW plus the top 64 bits of the product of
the number and HIGH-LOW+1, and so is a whole number. Another float is
LOW + (HIGH-LOW)*k/2^P, rounded to its type.

What kernels print goes to standard output. With --json it goes to standard
error, and its first 64 KiB are "printf" in the document.

--check finds races between threads of the kernel. It shows both accesses and
what would order them. The exit status is then 3. It is 4 if the check found
nothing and gave up something, because it would have needed too much memory.

Wall time is measured on this host, from the launch until the host knows that it
is done. Device time is measured by the device; a software GPU predicts it.
`,
		Example: `  ferry run kernels/kernels.ptx --kernel vector_add --grid 4 --block 256 \
      in:f32=iota[1024] in:f32=random[1024] 'out:f32=[1024]' u64=1024`,
		ValidArgsFunction: completeFiles("ptx"),
		RunE: func(c *cobra.Command, words []string) error {
			spec, err := o.spec(words)
			if err != nil {
				return err
			}
			return launch(c.Context(), s, o, words[0], spec)
		},
	}
	f := c.Flags()
	f.StringVar(&o.kernel, "kernel", "", "the name `K` of the kernel in the source or, if several have it, in the file")
	f.StringVar(&o.grid, "grid", "", "number of blocks: `X`, X,Y or X,Y,Z")
	f.StringVar(&o.block, "block", "", "number of threads per block: `X`, X,Y or X,Y,Z")
	f.UintVar(&o.shared, "shared", 0, "dynamic shared memory of a block in `BYTES`")
	f.UintVar(&o.stack, "stack", 0, "stack of a thread in `BYTES`, for kernels that recurse (1024)")
	f.StringVar(&o.memory, "memory", "device", "memory `M` of the buffers: device (copied in and out), mapped (page-locked, used over the link) or managed")
	f.Uint64Var(&o.seed, "seed", 0, "seed `N` of random data")
	f.BoolVar(&o.bits, "bits", false, "show values as bit patterns, 0x3f800000; strings in JSON")
	jsonFlag(c, &o.json, "schema ferry.run/1: up to 65536 values per output, and the SHA-256 of all its bytes")
	f.StringVar(&o.check, "check", "", "check the kernel by `LIST`: races, or 1 for all; only on the software GPU (FERRY_CHECK)")
	f.Lookup("check").NoOptDefVal = "1"
	f.DurationVar(&o.limit, "limit", 0, "end the kernel, or its loading, after this `TIME`, such as 10s; a kernel only on the software GPU (FERRY_KERNEL_LIMIT, else no limit)")
	deviceFlag(c, &o.device)
	complete(c, "memory", func() []cobra.Completion { return []string{"device", "mapped", "managed"} })
	complete(c, "kernel", func() []cobra.Completion { return kernelNames(f.Arg(0)) })
	return c
}

// kernelNames returns the kernels of a PTX file, for a shell. It returns nil if there is
// no such file.
func kernelNames(path string) (names []string) {
	text, err := inputfile.Read(path, inputfile.Source)
	if err != nil {
		return nil
	}
	m, err := ptx.Parse(path, string(text))
	if err != nil {
		return nil
	}
	for _, f := range m.Entries() {
		names = append(names, f.Name)
	}
	return names
}

// choices returns what a flag that is missing can be, for a file: its kernels.
func choices(flag, file string) string {
	names := kernelNames(file)
	switch {
	case flag != "kernel":
		return ""
	case filepath.Ext(file) == ".cu":
		return ", and a PTX file" + ask(fileCommand(file))
	case len(names) == 0:
		return ""
	}
	return ": " + file + " has " + strings.Join(names[:min(len(names), mostChoices)], ", ")
}

// mostChoices is how many kernels an error names.
const mostChoices = 8

// launch implements "ferry run".
func launch(ctx context.Context, s *session, o *launchOptions, file string, spec *runner.Spec) (err error) {
	spec.LoadLimit = o.limit
	if spec.Program, err = runner.Load(ctx, file, o.limit); err != nil {
		return err
	}
	if err := spec.Check(); err != nil {
		return err
	}
	if o.limit > 0 {
		os.Setenv(softgpu.LimitVariable, o.limit.String())
	}
	if o.check != "" {
		os.Setenv(softgpu.CheckVariable, o.check)
	}
	g, err := s.open(ctx, o.device)
	if err != nil {
		return err
	}
	if o.check != "" && softgpu.Of(g.Driver()) == nil {
		return firstError(badUsage("--check: only the software GPU checks kernels, use --device soft"), g.Close())
	}
	if o.stack > 0 {
		if err := g.Driver().CtxSetLimit(g.CUContext(), cu.LimitStackSize, uintptr(o.stack)); err != nil {
			return firstError(fmt.Errorf("--stack %d: %w", o.stack, err), g.Close())
		}
	}
	r, err := s.runKernel(ctx, g, o, spec)
	if _, late := errors.AsType[*runner.LoadLimitError](err); late || ctx.Err() != nil {
		return firstError(ctx.Err(), err) // without Close, which would wait
	}
	if err != nil {
		return firstError(s.failedRun(o, r, err), g.Close())
	}
	s.warnings = append(s.warnings, r.Warnings...)
	if err := firstError(s.writeReport(launched{r, o.bits}, o.json), g.Close()); err != nil {
		return err
	}
	if n := len(r.Findings); n > 0 {
		return found("the checks found %d faults in the kernel", n)
	}
	return gaveUp(r.GaveUp)
}

// failedRun returns the error of a kernel. With --json, the findings of its checks are written,
// in a document that is marked as partial.
func (s *session) failedRun(o *launchOptions, r *runner.Result, failed error) error {
	if r == nil || !o.json {
		return failed
	}
	s.partial = failed.Error()
	return firstError(s.writeReport(launched{r, o.bits}, true), failed)
}

// runKernel runs the kernel. With --json, what it prints goes to standard error and into
// the result.
func (s *session) runKernel(ctx context.Context, g *ferry.GPU, o *launchOptions, spec *runner.Spec) (*runner.Result, error) {
	var output *kernelOutput
	if o.json {
		var err error
		if output, err = takeOutput(s.stderr, !g.Emulated()); err != nil {
			return nil, err
		}
	}
	p := newProgress(s.stderr)
	spec.Progress = p.say
	r, err := runner.Run(ctx, g, spec)
	p.done()
	if printed := output.end(); r != nil {
		r.SetPrintf(printed)
	}
	return r, err
}

// launched is the report of "ferry run".
type launched struct {
	*runner.Result
	bits bool
}

// Page returns the result for a reader.
func (l launched) Page() *layout.Page { return l.Result.Page(l.bits) }

// JSON returns the result as a document.
func (l launched) JSON() ([]byte, error) { return l.Result.JSON(l.bits) }

// spec reads the command line. All its errors are usage errors.
func (o *launchOptions) spec(words []string) (*runner.Spec, error) {
	if len(words) == 0 {
		return nil, badUsage("no PTX file was given")
	}
	for _, need := range []struct{ name, value string }{{"kernel", o.kernel}, {"grid", o.grid}, {"block", o.block}} {
		if need.value == "" {
			return nil, badUsage("--%s is required%s", need.name, choices(need.name, words[0]))
		}
	}
	if o.limit < 0 {
		return nil, badUsage("--limit %v: must be positive", o.limit)
	}
	if _, err := softgpu.ParseCheck(o.check); err != nil {
		return nil, badUsage("--check: %v", err)
	}
	if o.shared > 1<<31-1 {
		return nil, badUsage("--shared %d: more than any device has", o.shared)
	}
	spec := &runner.Spec{Kernel: o.kernel, Shared: int(o.shared), Seed: o.seed}
	var err error
	if spec.Grid, err = runner.ParseShape(o.grid); err != nil {
		return nil, badUsage("--grid: %v", err)
	}
	if spec.Block, err = runner.ParseShape(o.block); err != nil {
		return nil, badUsage("--block: %v", err)
	}
	if spec.Memory, err = runner.ParseMemory(o.memory); err != nil {
		return nil, badUsage("--memory: %v", err)
	}
	for _, word := range words[1:] {
		a, err := runner.ParseArg(word)
		if err != nil {
			return nil, badUsage("%v", err)
		}
		spec.Args = append(spec.Args, a)
	}
	return spec, nil
}
