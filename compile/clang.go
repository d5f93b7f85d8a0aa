package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/kernels"
)

// maxLog is how many bytes of a compiler's messages are kept.
const maxLog = 4 << 20

// limited keeps the first maxLog bytes that are written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxLog - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// clangRun is one compilation by clang, with its temporary directory.
type clangRun struct {
	c       *clang
	u       *unit
	dir     string  // has the next two
	headers string  // kernels.Headers
	source  string  // the source with a #line directive
	missing string  // empty headers in place of those that are not there
	overlay string  // the headers that are changed, or ""
	uses    string  // the file in which clang lists the files that it read
	system  *system // nil if there are no headers of C and C++
	host    hostCode
}

// compile compiles with clang. It asks for the lowest PTX version of the architecture, so
// that old drivers accept the result, and for a newer one if the source needs it.
func (c *clang) compile(ctx context.Context, u *unit) (*Result, error) {
	r, err := c.newRun(u)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.dir)
	if r.system, _ = c.system(ctx); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	version, _ := lowestPTX(u.arch)
	for round := 0; ; round++ {
		out, log, err := r.run(ctx, version)
		if err == nil {
			if out, err = r.markManaged(ctx, out, version); err != nil {
				return nil, err
			}
			return r.result(out, log), nil
		}
		newer := neededPTX(log, version, c.newestPTX())
		if _, failed := errors.AsType[*exec.ExitError](err); !failed || ctx.Err() != nil {
			return nil, fmt.Errorf("run %s: %w", c.path, err)
		}
		if newer > version {
			version = newer
			continue
		}
		again, err := r.host.leaveOut(ctx, log)
		if err != nil {
			return nil, err
		}
		if !again || round == maxRounds {
			return nil, r.failure(log)
		}
	}
}

// newRun writes the files of a compilation.
func (c *clang) newRun(u *unit) (*clangRun, error) {
	parent := "" // TMPDIR
	if secureenv.Privileged() {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "ferry-compile-")
	if err != nil {
		return nil, err
	}
	r := &clangRun{c: c, u: u, dir: dir, headers: filepath.Join(dir, "headers"), source: filepath.Join(dir, "source", "source.cu"),
		missing: filepath.Join(dir, "missing"), uses: filepath.Join(dir, "uses")}
	r.host = hostCode{r: r, files: map[string]*edited{}}
	text := append([]byte(lineDirective(u.name, 1)), u.source...)
	if err := errors.Join(
		os.CopyFS(r.headers, kernels.Headers),
		os.Mkdir(filepath.Dir(r.source), 0o700),
		os.WriteFile(r.source, text, 0o600),
	); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return r, nil
}

// args returns the command line for a PTX version.
func (r *clangRun) args(version int) []string {
	o := r.u.o
	args := []string{
		"-x", "cuda", "--cuda-gpu-arch=" + r.u.arch.String(), "--cuda-device-only", "-nocudainc", "-nocudalib",
		"--cuda-path=" + r.dir, // has no toolkit: beside an installed one clang raises the PTX version
		"-std=c++17", "-fdeclspec", "-O3", "-S", "-o", "-",
		"-Xclang", "-target-feature", "-Xclang", "+ptx" + strconv.Itoa(version),
		"-fno-color-diagnostics", "-fno-caret-diagnostics", "-ferror-limit=500", "-Wno-unused-command-line-argument",
		"-Wno-register", "-Wno-c++11-narrowing", // nvcc accepts both
		"-fuse-cuid=none", "-fdebug-compilation-dir=.", "-ffile-prefix-map=" + r.headers + "=ferry",
		"-MMD", "-MF", r.uses, "-iquote", r.u.directory(), "-I", r.headers, "-I", filepath.Join(r.headers, compatDir),
	}
	if r.system != nil {
		args = append(args, r.system.flags...)
	} else {
		args = append(args, "-nostdinc", "-nostdinc++", "-I", filepath.Join(r.headers, filepath.FromSlash(standInDir)))
	}
	if !includeFerry.Match(r.u.source) {
		args = append(args, "-include", filepath.Join(r.headers, filepath.FromSlash(hostHeader)))
	}
	for _, dir := range o.Include {
		args = append(args, "-I", dir)
	}
	for _, define := range o.Define {
		args = append(args, "-D"+define)
	}
	args = append(args, "-idirafter", r.missing)
	if r.overlay != "" {
		args = append(args, "-ivfsoverlay", r.overlay)
	}
	if o.LineInfo {
		args = append(args, "-gline-tables-only")
	}
	if o.FastMath {
		args = append(args, "-ffast-math", "-fcuda-flush-denormals-to-zero", "-fcuda-approx-transcendentals")
	}
	return append(args, "--", r.source)
}

// run compiles once.
func (r *clangRun) run(ctx context.Context, version int) (ptx []byte, log string, err error) {
	return r.clang(ctx, r.args(version))
}

// preprocess returns the source after the preprocessor, with the definitions of macros.
func (r *clangRun) preprocess(ctx context.Context) (string, error) {
	version, _ := lowestPTX(r.u.arch)
	args := slices.DeleteFunc(r.args(version), func(arg string) bool { return arg == "-S" })
	text, _, err := r.clang(ctx, append([]string{"-E", "-dD"}, args...))
	if _, failed := errors.AsType[*exec.ExitError](err); failed && ctx.Err() == nil {
		err = nil // an error in a directive
	}
	return string(text), err
}

func (r *clangRun) clang(ctx context.Context, args []string) (output []byte, log string, err error) {
	var out bytes.Buffer
	var messages limited
	cmd := command(ctx, r.c.path, args...)
	cmd.Stdout, cmd.Stderr = &out, &messages
	err = cmd.Run()
	return out.Bytes(), r.shown(messages.String()), err
}

// result makes the result of a run without errors.
func (r *clangRun) result(ptx []byte, log string) *Result {
	_, warnings, _ := split(parseClang(log, r.u))
	warnings = append(r.host.warnings(ptx), warnings...)
	return &Result{PTX: relativeFiles(ptx), Warnings: warnings, Log: log, Compiler: r.c.name(), Arch: r.u.arch.String()}
}

// failure makes the error of a run.
func (r *clangRun) failure(log string) error {
	all, _, more := split(r.host.errors(log))
	return &Error{File: r.u.name, Compiler: r.c.name(), Arch: r.u.arch.String(), Diagnostics: all, More: more, Log: log}
}

// The messages of clang about a PTX version that is too low: for a builtin, which names
// the versions that have it, and for an instruction.
var (
	needsFeature = regexp.MustCompile(`needs target feature .*`)
	ptxFeature   = regexp.MustCompile(`\bptx(\d+)`)
	noSelection  = regexp.MustCompile(`Cannot select|error in backend|LLVM ERROR`)
)

// neededPTX returns the PTX version to try after a failure, or 0. It is the lowest that a
// message asks for, or the newest if no message has a number.
func neededPTX(log string, version, newest int) int {
	lowest := 0
	for _, message := range needsFeature.FindAllString(log, -1) {
		for _, m := range ptxFeature.FindAllStringSubmatch(message, -1) {
			if v := atoi(m[1]); v > version && v <= newest && (lowest == 0 || v < lowest) {
				lowest = v
			}
		}
	}
	if lowest == 0 && noSelection.MatchString(log) {
		return newest
	}
	return lowest
}
