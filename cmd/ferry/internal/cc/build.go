package cc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/clangtool"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// A Builder compiles and links.
type Builder struct {
	Messages io.Writer // gets what clang prints
}

// FailedError says that clang did not accept a file. Its messages have been written.
type FailedError struct{ what string }

func (e *FailedError) Error() string { return e.what }

// tools are what a build needs.
type tools struct {
	clang *clangtool.Clang
	cxx   string   // the same clang for C++
	flags []string // with which it finds the headers of C and C++
	lib   library
}

// find returns the tools. Its errors name what to install.
func (o *Options) find(ctx context.Context) (*tools, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("programs are made for Linux alone")
	}
	if secureenv.Privileged() {
		return nil, errors.New("not in a privileged program, because the environment names the compiler")
	}
	c, err := clangtool.Find(ctx, o.Arch)
	if missing, ok := errors.AsType[*compile.NotFoundError](err); ok {
		return nil, noClang(missing)
	}
	if err != nil {
		return nil, err
	}
	t := &tools{clang: c, cxx: plusPlus(c.Path)}
	if t.flags, err = clangtool.Headers(ctx, c.Path); err != nil {
		return nil, err
	}
	if t.lib, err = newLibrary(ctx, t); err != nil {
		return nil, err
	}
	return t, nil
}

// noClang returns the error of a machine without a clang that is new enough.
func noClang(missing *compile.NotFoundError) error {
	return fmt.Errorf("there is no clang of version 14 or newer; tried\n  %s\ninstall one, such as by \"apt install clang\" or \"dnf install clang\"; FERRY_CLANG names one in another place", strings.Join(missing.Tried, "\n  "))
}

// plusPlus returns the name of a clang that compiles and links C++: clang++-19 beside clang-19.
func plusPlus(path string) string {
	dir, name := filepath.Split(path)
	if beside := filepath.Join(dir, strings.Replace(name, "clang", "clang++", 1)); exists(beside) {
		return beside
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Build compiles and links.
func (b *Builder) Build(ctx context.Context, o *Options) error {
	for _, f := range o.Files {
		if _, err := os.Stat(f); err != nil {
			return printable.Error(err)
		}
	}
	t, err := o.find(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ferry-cc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	objects, err := b.compileAll(ctx, t, o, dir)
	if err != nil || o.CompileOnly {
		return err
	}
	return b.link(ctx, t, o, objects)
}

// compileAll compiles the sources and returns the objects.
func (b *Builder) compileAll(ctx context.Context, t *tools, o *Options, dir string) (objects []string, err error) {
	for i, f := range o.Files {
		if !isSource(f) {
			continue
		}
		object := filepath.Join(dir, strconv.Itoa(i)+".o")
		if o.CompileOnly {
			object = o.objectFile(f)
		}
		one := &file{b, t, o, f, dir, filepath.Join(dir, strconv.Itoa(i)+".ptx")}
		if err := one.compile(ctx, object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// objectFile returns what -c makes of a source.
func (o *Options) objectFile(source string) string {
	if o.Output != "" {
		return o.Output
	}
	return strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)) + ".o"
}

// program returns the file that is linked.
func (o *Options) program() string {
	if o.Output == "" {
		return "a.out"
	}
	return o.Output
}

// link makes the program. The runtime library is last, so that all that is before it can use it.
func (b *Builder) link(ctx context.Context, t *tools, o *Options, objects []string) error {
	args := slices.Concat(t.flags, objects, o.link, []string{t.lib.path(), "-ldl", "-lpthread", "-lrt", "-lm", "-o", o.program()})
	text, err := b.run(ctx, o, t.cxx, args)
	b.print(text)
	if err != nil {
		return failed(ctx, err, "link "+o.program())
	}
	return nil
}

// failed returns the error of a run of clang.
func failed(ctx context.Context, err error, what string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return &FailedError{"clang could not " + what}
	}
	return err
}

// run runs clang and returns what it prints.
func (b *Builder) run(ctx context.Context, o *Options, name string, args []string) (string, error) {
	if o.Verbose {
		fmt.Fprintln(b.Messages, shown(append([]string{name}, args...)...))
	}
	c := exec.CommandContext(ctx, name, args...)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	err := c.Run()
	return text.String(), err
}

// plainForm matches a word that a shell takes as it is.
var plainForm = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shown returns words as a shell reads them.
func shown(words ...string) string {
	out := slices.Clone(words)
	for i, w := range out {
		if !plainForm.MatchString(w) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

func (b *Builder) print(text string) { io.WriteString(b.Messages, text) }

// A file is one source.
type file struct {
	*Builder
	t    *tools
	o    *Options
	name string
	dir  string
	ptx  string // the file of its device code
}

// compile makes an object file.
func (f *file) compile(ctx context.Context, object string) error {
	if !isCUDA(f.name) {
		return f.plain(ctx, object)
	}
	first, err := f.deviceCode(ctx)
	if err != nil {
		f.print(first)
		return failed(ctx, err, "compile the device code of "+f.name)
	}
	first, managed := withoutManaged(first)
	if slices.ContainsFunc(f.o.both, isQuiet) {
		first = ""
	}
	second, err := f.hostCode(ctx, object, managed)
	f.print(merged(first, second))
	if err != nil {
		return failed(ctx, err, "compile the host code of "+f.name)
	}
	return registerFirst(object)
}

// plain compiles a source without device code.
func (f *file) plain(ctx context.Context, object string) error {
	name, standard := f.t.cxx, slices.Concat(f.o.both, f.o.host)
	if filepath.Ext(f.name) == ".c" {
		name = f.t.clang.Path
		standard = slices.DeleteFunc(standard, func(w string) bool { return strings.HasPrefix(w, "-std=") && strings.Contains(w, "++") })
	}
	args := slices.Concat(always, []string{"-g1", "-isystem", f.t.lib.compat(), "-isystem", f.t.lib.headers()}, f.t.flags, f.stream(), standard, f.uses(), []string{"-c", f.name, "-o", object})
	text, err := f.run(ctx, f.o, name, args)
	f.print(text)
	if err != nil {
		return failed(ctx, err, "compile "+f.name)
	}
	return nil
}

// always are the flags of all compilations.
var always = []string{"-Wno-unused-command-line-argument", "-Wno-unknown-cuda-version", "-fno-optimize-sibling-calls"}

// sdkVersion is the newest version of the toolkit that clang 14 knows. Without one that it knows, clang
// calls functions of CUDA before 9.2.
const sdkVersion = "11.5"

// cuda returns the flags of both compilations of a .cu file. The device code is for the same
// architecture in both.
func (f *file) cuda() []string {
	args := slices.Concat(always, []string{"-x", "cuda", "--cuda-gpu-arch=" + f.t.clang.Arch, "-nocudainc", "-nocudalib",
		"--cuda-path=" + f.dir, // has no toolkit: beside an installed one clang raises the version of PTX
		"-Xclang", "-target-sdk-version=" + sdkVersion, "-std=c++17", "-fdeclspec", "-DFERRY_CC=1", "-Wno-register",
		"-isystem", f.t.lib.compat(), "-isystem", f.t.lib.headers(), "-include", f.t.lib.prelude()})
	return slices.Concat(args, f.t.flags, f.stream(), f.o.both)
}

// stream returns the flags that choose the default stream.
func (f *file) stream() []string {
	if !f.o.PerThread {
		return nil
	}
	return []string{"-UCUDA_API_PER_THREAD_DEFAULT_STREAM", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"}
}

// hostArgs returns the command line for the host code, in which the PTX lies.
func (f *file) hostArgs(object string) []string {
	args := slices.Concat(f.cuda(), []string{"--cuda-host-only", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", f.ptx, "-g1"})
	if !slices.ContainsFunc(f.o.host, isLevel) {
		args = append(args, "-O1")
	}
	return slices.Concat(args, f.o.host, f.uses(), []string{"-c", f.name, "-o", object})
}

// hostCode makes the object file. With managed variables the command is that of clang's own parts,
// with HIP as the language: clang has no such variables for CUDA.
func (f *file) hostCode(ctx context.Context, object string, managed bool) (text string, err error) {
	args := f.hostArgs(object)
	if !managed {
		return f.run(ctx, f.o, f.t.cxx, args)
	}
	text, err = f.run(ctx, f.o, f.t.cxx, append([]string{"-###"}, args...))
	if err != nil {
		return text, err
	}
	for _, words := range commands(text) {
		if text, err = f.run(ctx, f.o, words[0], asHIP(words[1:])); err != nil {
			break
		}
	}
	return text, err
}

// uses returns the flags with which clang lists the headers of the source.
func (f *file) uses() []string {
	if f.o.uses == "" {
		return nil
	}
	return []string{"-MD", "-MF", f.o.uses + filepath.Base(f.ptx)}
}

// isQuiet reports whether a flag turns off all warnings.
func isQuiet(word string) bool { return word == "-w" }

// isLevel reports whether a flag says how much clang optimises.
func isLevel(word string) bool { return regexp.MustCompile(`^-O([0-3sz]|fast)?$`).MatchString(word) }

// deviceCode makes the PTX, which ends with a zero byte as the driver wants it. A failure for want of
// a newer version of PTX is tried again with that.
func (f *file) deviceCode(ctx context.Context) (text string, err error) {
	version := f.t.clang.PTX
	for {
		text, err = f.run(ctx, f.o, f.t.cxx, f.deviceArgs(version))
		if err == nil {
			break
		}
		if version = f.t.clang.NewerPTX(text, version); version == 0 {
			return text, err
		}
	}
	return text, terminate(f.ptx)
}

// deviceArgs returns the command line for the device code.
func (f *file) deviceArgs(version int) []string {
	args := slices.Concat(f.cuda(), []string{"--cuda-device-only", "-S", "-O3", "-gline-tables-only", "-fuse-cuid=none",
		"-Xclang", "-target-feature", "-Xclang", "+ptx" + strconv.Itoa(version)})
	if f.o.FastMath {
		args = append(args, "-ffast-math", "-fcuda-flush-denormals-to-zero", "-fcuda-approx-transcendentals")
	}
	if f.o.uses != "" { // which headers are read can depend on __CUDA_ARCH__
		args = append(args, "-MD", "-MF", f.o.uses+"device-"+filepath.Base(f.ptx))
	}
	args = slices.Concat(args, f.o.device, []string{f.name, "-o", f.ptx})
	if slices.ContainsFunc(args, isQuiet) { // a warning tells of managed variables
		args = slices.DeleteFunc(args, func(w string) bool { return isQuiet(w) || strings.HasPrefix(w, "-Werror") })
	}
	return args
}

// terminate adds a zero byte to a file.
func terminate(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte{0})
	return errors.Join(err, f.Close())
}
