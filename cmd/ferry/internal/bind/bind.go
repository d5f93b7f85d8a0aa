package bind

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/ptx"
)

// Options are what Generate and Check take. Source is required.
type Options struct {
	Source  string // FILE.cu, or FILE.ptx
	PTX     string // use this PTX for a FILE.cu, without a compiler
	Out     string // the Go file; empty for FILE_cu.go or FILE_ptx.go
	Package string // empty for the package of the folder
	Type    string // empty for a name that is made from that of the source
	Compile compile.Options

	compile compiler // nil for compile.Source
}

// Output is what Generate makes.
type Output struct {
	GoFile, PTXFile string
	Go              []byte
	PTX             []byte   // nil if PTXFile exists already
	Notes           []string // kernels with arguments whose types are not known
	Warnings        []compile.Diagnostic
}

// Write writes the files. Neither is replaced before both are on the disk, because the Go file
// embeds the PTX.
func (o *Output) Write() error {
	var all []outfile.Contents
	if o.PTX != nil {
		all = append(all, outfile.Contents{Path: o.PTXFile, Data: o.PTX})
	}
	return outfile.WriteAll(append(all, outfile.Contents{Path: o.GoFile, Data: o.Go})...)
}

// module is a module of kernels with all that the generated file says.
type module struct {
	stamp
	pkg, typ string
	ptxFile  string // from the folder of the Go file
	from     string // the source, from the folder of the Go file
	kernels  []*kernel
	structs  []*goStruct
	ptx      []byte
	warnings []compile.Diagnostic
}

// Generate finds the kernels of a source and returns the Go code for them. It writes no
// file.
func Generate(ctx context.Context, o *Options) (*Output, error) {
	f, err := o.files()
	if err == nil {
		err = f.writable()
	}
	if err != nil {
		return nil, err
	}
	m, err := f.module(ctx)
	if err != nil {
		return nil, err
	}
	code, err := m.write()
	if err != nil {
		return nil, err
	}
	out := &Output{GoFile: f.out, PTXFile: f.ptx, Go: code, Warnings: m.warnings}
	if f.compiled {
		out.PTX = m.ptx
	}
	for _, k := range m.kernels {
		if note := k.note(); note != "" {
			out.Notes = append(out.Notes, note)
		}
	}
	return out, nil
}

// files are the names of the files of a binding, and the sources.
type files struct {
	*Options
	out, ptx string
	compiled bool // ptx is made from the source
	isPTX    bool // the source itself is PTX
	src      *source
	text     []byte // of the source
	sources  []hashed
}

// hashed is a file and the hash of its content.
type hashed struct{ name, sum string }

// files reads the sources and decides how the outputs are called.
func (o *Options) files() (*files, error) {
	if err := checkFile(o.Source); err != nil {
		return nil, err
	}
	f := &files{Options: o, out: o.Out, isPTX: strings.HasSuffix(o.Source, ".ptx"), src: &source{}}
	if f.out == "" {
		suffix := map[bool]string{true: "_ptx.go", false: "_cu.go"}[f.isPTX]
		f.out = filepath.Join(filepath.Dir(o.Source), fileStem(o.Source)+suffix)
	}
	switch {
	case !strings.HasSuffix(f.out, ".go") || strings.HasSuffix(f.out, "_test.go"):
		return nil, fmt.Errorf("bind %s: the output %s must be a .go file that is no test", o.Source, f.out)
	case f.isPTX && o.PTX != "":
		return nil, fmt.Errorf("bind %s: the source is PTX already, so other PTX has no use", o.Source)
	case f.isPTX:
		f.ptx = o.Source
	case o.PTX != "":
		f.ptx = o.PTX
	default:
		f.ptx, f.compiled = filepath.Join(filepath.Dir(f.out), fileStem(o.Source)+".ptx"), true
	}
	if _, err := f.relative(f.ptx); err != nil {
		return nil, err
	}
	if err := f.distinct(); err != nil {
		return nil, err
	}
	if f.isPTX {
		return f, nil
	}
	return f, f.readSource()
}

// distinct refuses outputs that are the source, or one file.
func (f *files) distinct() error {
	switch {
	case outfile.Same(f.out, f.Source):
		return fmt.Errorf("bind %s: the output %s is the source", f.Source, f.out)
	case outfile.Same(f.out, f.ptx):
		return fmt.Errorf("bind %s: the output %s is the file of the PTX, %s", f.Source, f.out, f.ptx)
	case f.compiled && outfile.Same(f.ptx, f.Source):
		return fmt.Errorf("bind %s: the PTX %s would replace the source", f.Source, f.ptx)
	}
	return nil
}

// writable returns an error if an output could not be written, before the compiler runs.
func (f *files) writable() error {
	if err := outfile.Check(f.out); err != nil || !f.compiled {
		return err
	}
	return outfile.Check(f.ptx)
}

// checkFile refuses what cannot be a source, such as a folder or a device.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("bind: %w", err)
	case info.IsDir():
		return fmt.Errorf("bind %s: is a directory: name the file with the kernels", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("bind %s: not a regular file", path)
	}
	return nil
}

// relative returns the name of the PTX for go:embed.
func (f *files) relative(path string) (string, error) {
	rel, err := filepath.Rel(filepath.Dir(f.out), path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return "", fmt.Errorf("bind %s: %s must be in the folder of %s or below it, because go:embed reaches no other files", f.Source, path, f.out)
	}
	if rel = filepath.ToSlash(rel); strings.ContainsAny(rel, "*?[]\"'`<>|:;,\n") {
		return "", fmt.Errorf("bind %s: go:embed does not take a file with the name %q: choose another name", f.Source, rel)
	}
	return rel, nil
}

// readSource reads the source and the files that it includes by #include "NAME".
func (f *files) readSource() error {
	text, err := inputfile.Read(f.Source, inputfile.Source)
	if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	f.text = text
	f.src = scan(string(text))
	f.addSource(f.Source, text)
	seen := map[string]bool{filepath.Clean(f.Source): true}
	f.include(f.src.includes, filepath.Dir(f.Source), seen)
	return nil
}

// maxIncludes is how many included files are read.
const maxIncludes = 200

// include reads included files. One that is not there is the compiler's business.
func (f *files) include(names []string, from string, seen map[string]bool) {
	for _, name := range names {
		for _, dir := range append([]string{from}, f.Compile.Include...) {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if filepath.IsAbs(name) {
				path = name
			}
			if seen[path] || len(seen) > maxIncludes {
				break
			}
			text, err := inputfile.Read(path, inputfile.Source)
			if err != nil {
				continue
			}
			seen[path] = true
			f.addSource(path, text)
			inner := scan(string(text))
			f.src.add(inner)
			f.include(inner.includes, filepath.Dir(path), seen)
			break
		}
	}
}

// add adds what another file tells.
func (s *source) add(o *source) {
	s.kernels = append(s.kernels, o.kernels...)
	for name, r := range o.records {
		s.records[name] = append(s.records[name], r...)
	}
}

// addSource records the hash of a file. Its name is relative to the Go file, so that the
// result does not depend on the folder where the command runs.
func (f *files) addSource(path string, text []byte) {
	f.sources = append(f.sources, hashed{f.nameFromOut(path), hash(text)})
}

// nameFromOut returns the name of a file as seen from the folder of the Go file.
func (f *files) nameFromOut(path string) string {
	if rel, err := filepath.Rel(filepath.Dir(f.out), path); err == nil {
		path = rel
	}
	return filepath.ToSlash(path)
}

// hash returns the SHA-256 of a text. Line ends of Windows count as others.
func hash(text []byte) string {
	sum := sha256.Sum256([]byte(strings.ReplaceAll(string(text), "\r\n", "\n")))
	return hex.EncodeToString(sum[:])
}

// module compiles the source, or reads the PTX, and finds the kernels.
func (f *files) module(ctx context.Context) (*module, error) {
	m := &module{from: f.nameFromOut(f.Source)}
	var p *prober
	var err error
	if f.compiled {
		p = &prober{compile: f.compile, name: filepath.ToSlash(f.Source), source: f.text, options: f.Compile}
		if p.compile == nil {
			p.compile = compile.Source
		}
		r, err := p.compile(ctx, p.name, f.text, &f.Compile)
		if err != nil {
			return nil, err
		}
		m.ptx, m.warnings = r.PTX, r.Warnings
	} else if m.ptx, err = inputfile.Read(f.ptx, inputfile.Source); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	parsed, err := ptx.Parse(f.ptx, strings.TrimRight(string(m.ptx), "\x00"))
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", f.Source, err)
	}
	if len(parsed.Entries()) == 0 {
		return nil, fmt.Errorf("bind %s: it has no kernels: %s", f.Source, f.noKernels())
	}
	if m.kernels, err = readKernels(ctx, parsed, f.src, p); err != nil {
		return nil, fmt.Errorf("bind %s: %w", f.Source, err)
	}
	return m, f.finish(ctx, m, p)
}

// noKernels says why there may be no kernels.
func (f *files) noKernels() string {
	if n := len(f.src.kernels); n > 0 {
		return fmt.Sprintf("%d __global__ functions in the text are not compiled, such as %s (templates need an explicit instantiation: template __global__ void f<float>(...);)", n, f.src.kernels[0].name())
	}
	return "a kernel is a function with __global__"
}

// finish gives types and names to all parts of a module.
func (f *files) finish(ctx context.Context, m *module, p *prober) (err error) {
	if m.ptxFile, err = f.relative(f.ptx); err != nil {
		return err
	}
	if m.typ = f.Type; m.typ == "" {
		m.typ = goName(fileStem(f.Source))
	}
	if m.typ != goName(m.typ) {
		return fmt.Errorf("bind %s: the type %q is not an exported Go name", f.Source, m.typ)
	}
	if m.pkg, err = f.packageName(); err != nil {
		return err
	}
	g := &goTypes{src: f.src, memory: map[string]bool{}, named: map[string]gotype{}, taken: map[string]bool{m.typ: true, "Load" + m.typ: true, "Bind" + m.typ: true}}
	if p != nil {
		if g.layouts, err = p.layouts(ctx, f.src, namedTypes(m.kernels)); err != nil {
			return fmt.Errorf("bind %s: %w", f.Source, err)
		}
	}
	if err := nameKernels(m.kernels); err != nil {
		return fmt.Errorf("bind %s: %w", f.Source, err)
	}
	for _, k := range m.kernels {
		for _, p := range k.params {
			g.see(p.ctype, false)
		}
	}
	for _, k := range m.kernels {
		k.resolveTypes(g)
	}
	m.structs = g.structs
	m.stamp = f.stamp(m)
	return nil
}

// packageName returns the package: that of the options, of go generate, or of the folder.
func (f *files) packageName() (string, error) {
	for _, name := range []string{f.Package, f.generatePackage(), packageOf(filepath.Dir(f.out), f.out)} {
		if name != "" {
			return name, nil
		}
	}
	dir, err := filepath.Abs(filepath.Dir(f.out))
	if err != nil {
		return "", err
	}
	name := strings.ToLower(strings.Map(func(r rune) rune {
		if r < 0x80 && wordPart(byte(r)) && r != '$' {
			return r
		}
		return -1
	}, filepath.Base(dir)))
	if name == "" || digit(name[0]) {
		return "", errors.New("bind: give the name of the package by --package")
	}
	return name, nil
}

// generatePackage returns the package for which go generate runs, or "" if the output is in
// another folder. A test outside of the package has its name with _test.
func (f *files) generatePackage() string {
	here, err := os.Stat(".")
	if err != nil {
		return ""
	}
	if dir, err := os.Stat(filepath.Dir(f.out)); err != nil || !os.SameFile(here, dir) {
		return ""
	}
	return strings.TrimSuffix(os.Getenv("GOPACKAGE"), "_test")
}

// stamp returns what the generated file records of its origin.
func (f *files) stamp(m *module) stamp {
	s := stamp{version: formatVersion, options: f.optionText(), sources: slices.Clone(f.sources), ptx: hashed{m.ptxFile, hash(m.ptx)}}
	for _, k := range m.kernels {
		s.kernels = append(s.kernels, k.signature())
	}
	for _, t := range m.structs {
		s.structs = append(s.structs, t.signature())
	}
	return s
}

// optionText returns the options that change the PTX.
func (f *files) optionText() string {
	var words []string
	add := func(flag, value string) { words = append(words, flag, value) }
	c := &f.Compile
	if f.compiled && c.Arch != "" {
		add("--arch", c.Arch)
	}
	for _, d := range c.Define {
		add("-D", d)
	}
	for _, d := range c.Include {
		add("-I", f.nameFromOut(d))
	}
	if c.FastMath {
		words = append(words, "--fast-math")
	}
	if c.LineInfo {
		words = append(words, "--lineinfo")
	}
	if !f.compiled && !f.isPTX {
		add("--ptx", f.nameFromOut(f.ptx))
	}
	return strings.Join(words, " ")
}
