package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/cc"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/child"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/softlib"
	"github.com/ferrygpu/ferry/internal/devices"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// ccOptions are the words of "ferry cc" that clang does not get.
type ccOptions struct {
	run    bool
	device string
	words  []string // for the compiler
	args   []string // of the program
}

// newCC returns the command "ferry cc".
func newCC(s *session) *cobra.Command {
	c := &cobra.Command{
		Use: "cc FILE.cu... [-o PROGRAM | -c [-o FILE.o]] [--arch sm_80]\n" +
			"                [--default-stream legacy|per-thread] [--race] [FLAG OF CLANG]...\n" +
			"       ferry cc --run FILE.cu... [--device D] [--race] [FLAG OF CLANG]...\n" +
			"                [-- ARG...]",
		Short: "compile a CUDA C++ program with clang, and run it",
		Long: `Compiles CUDA C++ to a program, or with -c to object files. The program runs on
the software GPU and on NVIDIA's driver, whichever libcuda.so.1 it finds when it
starts. No CUDA toolkit is needed: headers and the runtime API are Ferry's. What
the runtime lacks is declared; such a function names itself on standard error
and returns cudaErrorNotSupported.

It needs clang of version 14 or newer and the headers of C++ (apt install clang
g++), and runs on Linux. Files may be .cu, .cpp, .c, .o, .a and .so. Each .cu
file has its own device code: -dc and -rdc=true are refused. Flags of clang work
as they are, and the usual ones of nvcc: -arch, -gencode, -Xcompiler, -lineinfo,
-G, -use_fast_math, -std. Programs have lines for reports, also without -g.

With --run the program is built in the user's cache, unless it is there with the
same sources, headers, flags and compiler. Then it runs, with what follows -- as
its arguments, and its exit status is that of ferry. FERRY_CHECK, FERRY_TRACE,
FERRY_FAULT and FERRY_SCHEDULE work as with other programs, and so do
ferry check, trace and explain -- PROGRAM.

With --race clang's race detector watches the host code (-fsanitize=thread). On
the software GPU it also knows what copies and kernels do, and when: it reports
a host access to memory that the device uses, without a wait between them. Such
a program that is run by itself needs LD_LIBRARY_PATH="$(ferry lib --race)".

environment:
  FERRY_CLANG     the absolute path of a clang, or its name on PATH
`,
		Example: "  ferry cc saxpy.cu -o saxpy && LD_LIBRARY_PATH=\"$(ferry lib)\" ./saxpy\n" +
			"  ferry cc --run saxpy.cu -- 1024\n  ferry cc --run --race saxpy.cu\n  ferry cc -O2 -std=c++20 main.cpp kernels.cu -o program\n  ferry check --device soft -- ./program\n" +
			"  ferry explain --device soft -- ferry cc --run saxpy.cu",
		ValidArgsFunction:  completeFiles("cu", "cpp", "c", "o"),
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, words []string) error {
			o, help, err := readCC(words)
			if err != nil {
				return err
			}
			if help {
				return c.Help()
			}
			return s.cc(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringP("output", "o", "", "the program, or with -c the object `FILE` (a.out)")
	f.BoolP("compile", "c", false, "compile to object files, and do not link")
	f.String("arch", "", "the GPU architecture `A` of the PTX: newer GPUs run it, too (sm_80)")
	f.String("default-stream", "", "the default stream, `S`: legacy, or per-thread (legacy)")
	f.Bool("race", false, "build the host code with clang's race detector")
	f.Bool("run", false, "run the program, which is kept in the user's cache")
	deviceFlag(c, new(string))
	f.Lookup("device").Usage = "with --run, the device `D` of the program (FERRY_DEVICE, else an NVIDIA GPU, else soft)"
	return c
}

// readCC reads a command line. Clang has too many flags for pflag.
func readCC(words []string) (o *ccOptions, help bool, err error) {
	o = &ccOptions{}
	for i := 0; i < len(words); i++ {
		word := words[i]
		name, value, has := strings.Cut(word, "=")
		switch {
		case word == "--help" || word == "-help" || word == "-h":
			return nil, true, nil
		case word == "--":
			o.args = words[i+1:]
			if !o.run && !slices.Contains(words[:i], "--run") {
				return nil, false, badUsage("-- is for the arguments of a program that runs: want --run before it")
			}
			return o, false, nil
		case word == "--run" || word == "-run":
			o.run = true
		case word == "--race" || word == "-race":
			o.words = append(o.words, "-fsanitize=thread")
		case name == "--device" || name == "-device":
			if !has {
				if i++; i == len(words) {
					return nil, false, badUsage("flag needs an argument: --device")
				}
				value = words[i]
			}
			o.device = value
		default:
			o.words = append(o.words, word)
		}
	}
	return o, false, nil
}

// cc compiles, and runs the program if that is wanted.
func (s *session) cc(ctx context.Context, o *ccOptions) error {
	options, err := cc.Parse(o.words)
	if wrong, ok := errors.AsType[*cc.UsageError](err); ok {
		return badUsage("%v", wrong)
	}
	if err != nil {
		return err
	}
	b := &cc.Builder{Messages: s.stderr}
	switch {
	case !o.run && o.device != "":
		return badUsage("--device is for --run")
	case !o.run:
		return archUsage(b.Build(ctx, options))
	case options.CompileOnly || options.Output != "":
		return badUsage("--run: the program is in the cache; -c and -o are for programs that stay")
	}
	program, err := b.Program(ctx, options)
	if err != nil {
		return archUsage(err)
	}
	return s.runProgram(ctx, o, options.Files[0], program)
}

// runProgram runs a program that was compiled, of a source.
func (s *session) runProgram(ctx context.Context, o *ccOptions, source, program string) error {
	env, err := s.ccEnvironment(ctx, o.device, program)
	if err != nil {
		return err
	}
	p := &child.Program{Args: append([]string{program}, o.args...), Env: env, Stdout: forProgram(s.stdout), Stderr: s.stderr}
	state, err := p.Run(ctx)
	if state == nil || err != nil && ctx.Err() != nil {
		return err
	}
	if state.ExitCode() == 0 {
		return nil
	}
	return &childError{source, state.String(), max(state.ExitCode(), exitError)} // -1 after a signal
}

// gpuFiles are what the system has where NVIDIA's driver has a GPU: on servers, Jetson and WSL.
var gpuFiles = []string{"/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/nvgpu", "/dev/dxg"}

// ccEnvironment returns the variables with which a compiled program gets a device. Without a name
// that is a GPU of NVIDIA if the machine has one, else the software GPU.
func (s *session) ccEnvironment(ctx context.Context, device, program string) ([]string, error) {
	if device == "" {
		device = secureenv.Device()
	}
	if device == "" && !slices.ContainsFunc(gpuFiles, exists) {
		device = "soft"
	}
	if device == "" {
		return nil, nil
	}
	if err := checkProfile(device); err != nil {
		return nil, err
	}
	n, err := devices.Parse(device)
	switch {
	case err != nil:
		return nil, badUsage("--device %s: %v", device, err)
	case n.Soft:
		l, err := s.softLibrary(ctx, softlib.HasDetector(program))
		if err != nil {
			return nil, err
		}
		return []string{secureenv.DeviceVariable + "=" + device, l.Environment()}, nil
	}
	if _, one, ok := strings.Cut(device, ":"); ok {
		return []string{"CUDA_VISIBLE_DEVICES=" + one}, nil
	}
	return nil, nil
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
