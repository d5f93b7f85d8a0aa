package main

import (
	"context"
	"os"
	"time"

	"github.com/ferrygpu/ferry/internal/runner"
	"github.com/ferrygpu/ferry/softgpu"
)

var runCommand = command{
	name:    "run",
	summary: "launch a kernel from a PTX file",
	usage: "run FILE.ptx --kernel K --grid X[,Y[,Z]] --block X[,Y[,Z]]\n" +
		"                 [--shared BYTES] [--memory device|mapped|managed] [--seed N]\n" +
		"                 [--bits] [--limit TIME] [--device D] [--json] ARG...",
	run: launch,
	help: `Launches a kernel with the given arguments, in the order of its parameters.
Shows its output buffers, the time it took and how many threads ran per second.

A scalar is TYPE=VALUE, a buffer in:TYPE=DATA, inout:TYPE=DATA or out:TYPE=[N]:

  u32=7  s64=-1  f32=0.5  b16=0x3c00      scalars
  struct=f32:0.5,u32:7,8                  a structure by value, see below
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

flags:
  --kernel K      the kernel's name in the source or, if several have it, in the
                  file
  --grid, --block number of blocks, and of threads per block: X, X,Y or X,Y,Z
  --shared BYTES  dynamic shared memory of a block (0)
  --memory M      memory of the buffers: device (copied in and out), mapped
                  (page-locked, used over the link) or managed (device)
  --seed N        seed of random data (0)
  --bits          show values as bit patterns, 0x3f800000; strings in JSON
  --json          one JSON document, schema ferry.run/1: up to 65536 values per
                  output, and the SHA-256 of all its bytes
  --limit TIME    end the kernel after this time, such as 10s; only on the
                  software GPU (FERRY_KERNEL_LIMIT, else no limit)
  --device D      which device

random: element i of the buffer for parameter p, both counted from 0, comes from
number i of SplitMix64. Its state is number p of SplitMix64 with state N, the
seed. An integer of B bits is the top B bits of the number. A float is k/2^P in
[0,1), where k is the top P bits; P is 11 for f16, 8 for bf16, 24 for f32 and 53
for f64. With limits, an integer is LOW plus the top 64 bits of the product of
the number and HIGH-LOW+1, and so is a whole number. Another float is
LOW + (HIGH-LOW)*k/2^P, rounded to its type.

Wall time is measured on this host, from the launch until the host knows that it
is done. Device time is measured by the device; a software GPU predicts it.

` + deviceHelp,
}

func launch(ctx context.Context, s *session) error {
	spec, o, err := parseLaunch(s.args)
	if err != nil {
		return err
	}
	if spec.Program, err = runner.Load(o.file); err != nil {
		return err
	}
	if err := spec.Check(); err != nil {
		return err
	}
	if o.limit > 0 {
		os.Setenv(softgpu.LimitVariable, o.limit.String())
	}
	g, err := s.open(o.device)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	spec.Progress = func(phase string) { p.say("%s", phase) }
	r, err := runner.Run(ctx, g, spec)
	p.done()
	if ctx.Err() != nil {
		return ctx.Err() // without Close, which would wait for the kernel
	}
	if err != nil {
		return firstError(err, g.Close())
	}
	s.warnings = append(s.warnings, r.Warnings...)
	text := []byte(r.Text(o.bits))
	if o.json {
		if text, err = r.JSON(o.bits); err != nil {
			return err
		}
	}
	return firstError(s.write(text), g.Close())
}

// launchOptions are the options that are not part of the launch itself.
type launchOptions struct {
	file, device string
	json, bits   bool
	limit        time.Duration // of the kernel
}

// parseLaunch reads the command line. All its errors are usage errors.
func parseLaunch(args []string) (*runner.Spec, *launchOptions, error) {
	f := newFlags("run")
	device, asJSON := deviceFlag(f), jsonFlag(f)
	kernel := f.String("kernel", "", "")
	grid := f.String("grid", "", "")
	block := f.String("block", "", "")
	shared := f.Uint("shared", 0, "")
	memory := f.String("memory", "device", "")
	seed := f.Uint64("seed", 0, "")
	bits := f.Bool("bits", false, "")
	limit := f.Duration("limit", 0, "")
	words, err := parse(f, args)
	if err != nil {
		return nil, nil, err
	}
	if len(words) == 0 {
		return nil, nil, badUsage("no PTX file was given")
	}
	for _, need := range []struct{ name, value string }{{"kernel", *kernel}, {"grid", *grid}, {"block", *block}} {
		if need.value == "" {
			return nil, nil, badUsage("--%s is required", need.name)
		}
	}
	if *limit < 0 {
		return nil, nil, badUsage("--limit %v: must be positive", *limit)
	}
	if *shared > 1<<31-1 {
		return nil, nil, badUsage("--shared %d: more than any device has", *shared)
	}
	spec := &runner.Spec{Kernel: *kernel, Shared: int(*shared), Seed: *seed}
	if spec.Grid, err = runner.ParseShape(*grid); err != nil {
		return nil, nil, badUsage("--grid: %v", err)
	}
	if spec.Block, err = runner.ParseShape(*block); err != nil {
		return nil, nil, badUsage("--block: %v", err)
	}
	if spec.Memory, err = runner.ParseMemory(*memory); err != nil {
		return nil, nil, badUsage("--memory: %v", err)
	}
	for _, word := range words[1:] {
		a, err := runner.ParseArg(word)
		if err != nil {
			return nil, nil, badUsage("%v", err)
		}
		spec.Args = append(spec.Args, a)
	}
	return spec, &launchOptions{file: words[0], device: *device, json: *asJSON, bits: *bits, limit: *limit}, nil
}
