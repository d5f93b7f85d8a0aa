package cc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Options are a command line of "ferry cc".
type Options struct {
	Files       []string // sources, objects and libraries, in their order
	Output      string   // the program, or with CompileOnly the object file
	Arch        string   // "sm_80"; "" for the default
	CompileOnly bool     // -c: make object files, and do not link
	PerThread   bool     // the default stream is that of the thread
	FastMath    bool
	Verbose     bool // -v: show the commands

	both, host, device, link []string // flags for the compilations and the link, in their order
	uses                     string   // begins the names of files that list the headers of sources; "" for none
}

// UsageError is a wrong command line.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

func usage(form string, args ...any) error { return &UsageError{fmt.Sprintf(form, args...)} }

// sources are the extensions of files that are compiled.
var sources = []string{".cu", ".cpp", ".cc", ".cxx", ".c++", ".C", ".c"}

// linked are the extensions of files that are handed to the linker.
var linked = []string{".o", ".a", ".so", ".lo"}

// isCUDA reports whether a file has device code.
func isCUDA(file string) bool { return filepath.Ext(file) == ".cu" }

// isSource reports whether a file is compiled.
func isSource(file string) bool { return slices.Contains(sources, filepath.Ext(file)) }

// isLinked reports whether a file is linked as it is. A shared library can end in .so.1.
func isLinked(file string) bool {
	return slices.Contains(linked, filepath.Ext(file)) || strings.Contains(filepath.Base(file), ".so.")
}

// A flag says what a word of the command line means.
type flag struct {
	// value says that the flag has a value: behind = or in the next word.
	value bool
	do    func(o *Options, value string) error
}

// ignored are flags of nvcc that say nothing to clang, or what clang does anyway.
func ignored(*Options, string) error { return nil }

// refused returns a flag that Ferry lacks.
func refused(value bool, why string) flag {
	return flag{value, func(*Options, string) error { return fmt.Errorf("%w", usage("%s", why)) }}
}

// noRelocatable says why device code is not linked.
const noRelocatable = "relocatable device code (-dc, -rdc=true, -dlink) is not supported: each .cu file has its own device code; include the device functions of another file as a header, or put them into one file"

// What is said of flags of nvcc that name a folder or a file.
const (
	noFolder    = "-odir is not supported: -o names the output with its folder"
	noFlagsFile = "-optf is not supported: give the flags themselves"
)

// flags are those that are not handed to clang as they are, without their dashes.
var flags = map[string]flag{
	"arch":             {true, (*Options).setArch},
	"gpu-architecture": {true, (*Options).setArch},
	"gencode":          {true, (*Options).setCode},
	"generate-code":    {true, (*Options).setCode},
	"cuda-gpu-arch":    {true, (*Options).setArch},
	"offload-arch":     {true, (*Options).setArch},
	"code":             {true, ignored},
	"gpu-code":         {true, ignored},

	"default-stream":   {true, (*Options).setStream},
	"std":              {true, (*Options).setStandard},
	"use_fast_math":    {false, func(o *Options, _ string) error { o.FastMath = true; return nil }},
	"fmad":             {true, func(o *Options, v string) error { return o.contract(v) }},
	"ftz":              {true, func(o *Options, v string) error { return o.flush(v) }},
	"prec-div":         {true, ignored},
	"prec-sqrt":        {true, ignored},
	"Xcompiler":        {true, func(o *Options, v string) error { return o.forHost(v) }},
	"compiler-options": {true, func(o *Options, v string) error { return o.forHost(v) }},
	"Xlinker":          {true, func(o *Options, v string) error { return o.forLinker(v) }},
	"linker-options":   {true, func(o *Options, v string) error { return o.forLinker(v) }},
	"x":                {true, ignored}, // a file's name says what it is
	"machine":          {true, ignored},
	"m64":              {false, ignored},

	"c":       {false, func(o *Options, _ string) error { o.CompileOnly = true; return nil }},
	"compile": {false, func(o *Options, _ string) error { o.CompileOnly = true; return nil }},
	"v":       {false, func(o *Options, _ string) error { o.Verbose = true; return nil }},
	"verbose": {false, func(o *Options, _ string) error { o.Verbose = true; return nil }},

	"lineinfo":                         {false, ignored}, // there always
	"generate-line-info":               {false, ignored},
	"G":                                {false, ignored},
	"device-debug":                     {false, ignored},
	"Xptxas":                           {true, ignored},
	"ptxas-options":                    {true, ignored},
	"Xnvlink":                          {true, ignored},
	"nvlink-options":                   {true, ignored},
	"Xcudafe":                          {true, ignored},
	"diag-suppress":                    {true, ignored},
	"diag_suppress":                    {true, ignored},
	"maxrregcount":                     {true, ignored},
	"ccbin":                            {true, ignored},
	"compiler-bindir":                  {true, ignored},
	"cudart":                           {true, ignored},
	"threads":                          {true, ignored},
	"t":                                {true, ignored},
	"expt-relaxed-constexpr":           {false, ignored},
	"expt-extended-lambda":             {false, ignored},
	"extended-lambda":                  {false, ignored},
	"forward-unknown-to-host-compiler": {false, ignored},
	"forward-unknown-opts":             {false, ignored},
	"Wno-deprecated-gpu-targets":       {false, ignored},
	"res-usage":                        {false, ignored},
	"resource-usage":                   {false, ignored},
	"keep":                             {false, ignored},
	"cuda-path":                        {true, ignored},
	"nocudainc":                        {false, ignored},
	"nocudalib":                        {false, ignored},

	"rdc":                     {true, func(_ *Options, v string) error { return noRelocation(v) }},
	"relocatable-device-code": {true, func(_ *Options, v string) error { return noRelocation(v) }},
	"fgpu-rdc":                refused(false, noRelocatable),
	"dc":                      refused(false, noRelocatable),
	"device-c":                refused(false, noRelocatable),
	"dlink":                   refused(false, noRelocatable),
	"device-link":             refused(false, noRelocatable),
	"ptx":                     refused(false, "-ptx makes no program: ferry compile FILE.cu makes PTX"),
	"cubin":                   refused(false, "-cubin makes machine code, which clang cannot without NVIDIA's assembler: ferry compile FILE.cu makes PTX"),
	"fatbin":                  refused(false, "-fatbin makes machine code, which clang cannot without NVIDIA's assembler: ferry compile FILE.cu makes PTX"),
	"odir":                    refused(true, noFolder),
	"output-directory":        refused(true, noFolder),
	"optf":                    refused(true, noFlagsFile),
	"options-file":            refused(true, noFlagsFile),
	"E":                       refused(false, "-E is not supported: a .cu file is compiled twice, and so has two texts"),
	"S":                       refused(false, "-S is not supported: ferry compile FILE.cu makes PTX"),
}

// withValue are flags of clang whose value is the next word, and who gets them.
var withValue = map[string]func(*Options) *[]string{
	"-I": both, "-D": both, "-U": both, "-isystem": both, "-include": both, "-iquote": both, "-idirafter": both,
	"-L": link, "-l": link, "-T": link, "-u": link, "-z": link, "-rpath": link,
	"-MF": host, "-MT": host, "-MQ": host,
}

func both(o *Options) *[]string { return &o.both }
func host(o *Options) *[]string { return &o.host }
func link(o *Options) *[]string { return &o.link }

// isOwn returns the flag of a word, and its value if that is part of the word.
func isOwn(word string) (f flag, value string, has, ok bool) {
	name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
	f, ok = flags[name]
	if dashes := len(word) - len(strings.TrimLeft(word, "-")); ok && dashes == 2 && len(name) == 1 {
		ok = false
	}
	return f, value, has, ok && (f.value || !has)
}

// Parse reads a command line without the flags of Ferry alone. The errors are [*UsageError].
func Parse(words []string) (*Options, error) {
	o := &Options{}
	for i := 0; i < len(words); i++ {
		word := words[i]
		next := func() (string, error) {
			if i++; i >= len(words) {
				return "", usage("%s: a value is missing", word)
			}
			return words[i], nil
		}
		if err := o.word(word, next); err != nil {
			return nil, err
		}
	}
	return o, o.check()
}

// word reads a word. next returns the one behind it.
func (o *Options) word(word string, next func() (string, error)) (err error) {
	if word == "" || word == "-" {
		return usage("%q is not expected here: sources are files", word)
	}
	if word[0] != '-' {
		return o.file(word)
	}
	if word == "-o" || word == "--output" || word == "--output-file" {
		o.Output, err = next()
		return err
	}
	if f, value, has, ok := isOwn(word); ok {
		if f.value && !has {
			if value, err = next(); err != nil {
				return err
			}
		}
		return f.do(o, value)
	}
	if to, ok := withValue[word]; ok {
		value, err := next()
		if err != nil {
			return err
		}
		return o.pair(to(o), word, value)
	}
	return o.clang(word)
}

// file reads a word without a dash.
func (o *Options) file(word string) error {
	if !isSource(word) && !isLinked(word) {
		return usage("%s: not a source (%s), an object file or a library", word, strings.Join(sources, ", "))
	}
	o.Files = append(o.Files, word)
	if isLinked(word) {
		o.link = append(o.link, word)
	}
	return nil
}

// pair adds a flag with its value.
func (o *Options) pair(to *[]string, name, value string) error {
	switch name {
	case "-l":
		return o.library(value)
	case "-D":
		o.define(value)
	}
	*to = append(*to, name, value)
	return nil
}

// define notes a macro that chooses the default stream.
func (o *Options) define(macro string) {
	if name, _, _ := strings.Cut(macro, "="); name == "CUDA_API_PER_THREAD_DEFAULT_STREAM" {
		o.PerThread = true
	}
}

// clang reads a flag of clang that is one word.
func (o *Options) clang(word string) error {
	switch {
	case strings.HasPrefix(word, "-l"):
		return o.library(word[2:])
	case strings.HasPrefix(word, "-o"):
		o.Output = word[2:]
	case strings.HasPrefix(word, "-D"):
		o.define(word[2:])
		o.both = append(o.both, word)
	case strings.HasPrefix(word, "-L"), strings.HasPrefix(word, "-Wl,"), word == "-shared", word == "-static", word == "-rdynamic", word == "-s":
		o.link = append(o.link, word)
	case word == "-pthread", strings.HasPrefix(word, "-fopenmp"), strings.HasPrefix(word, "-fsanitize"), strings.HasPrefix(word, "-m"), strings.HasPrefix(word, "-flto"), word == "-fPIE", word == "-pie", word == "-no-pie", word == "-pg", strings.HasPrefix(word, "--coverage"):
		o.host = append(o.host, word)
		o.link = append(o.link, word)
	case strings.HasPrefix(word, "-O"), strings.HasPrefix(word, "-g"), strings.HasPrefix(word, "-M"):
		o.host = append(o.host, word) // device code is always optimised, and has lines
	default:
		o.both = append(o.both, word)
	}
	return nil
}

// libraries of CUDA's toolkit, and what there is instead.
var libraries = map[string]bool{ // true: part of every program
	"cuda": true, "cudart": true, "cudart_static": true, "cudadevrt": true,
	"cublas": false, "cublasLt": false, "cublas_static": false, "cufft": false, "curand": false, "cusparse": false,
	"cusolver": false, "cudnn": false, "nvrtc": false, "nvToolsExt": false, "nccl": false, "nvjpeg": false, "npp": false,
}

// library reads -lNAME. Programs have the runtime and the driver API in any case.
func (o *Options) library(name string) error {
	present, known := libraries[name]
	switch {
	case !known:
		o.link = append(o.link, "-l"+name)
	case !present:
		return usage("-l%s: Ferry has no such library of CUDA's toolkit", name)
	}
	return nil
}

// archForm matches the architectures of -arch and -gencode.
var archForm = regexp.MustCompile(`(?:sm|compute|lto)_(\d+)([af]?)`)

// setArch reads -arch. "native" and "all" are the default: PTX runs on newer GPUs, too.
func (o *Options) setArch(value string) error {
	if value == "native" || strings.HasPrefix(value, "all") {
		return nil
	}
	if !archForm.MatchString(value) {
		o.Arch = value // clangtool.Find says what is wrong with it
		return nil
	}
	return o.setCode(value)
}

// setCode reads -gencode. Of several architectures the newest counts: programs have one text of PTX.
func (o *Options) setCode(value string) error {
	for _, m := range archForm.FindAllStringSubmatch(value, -1) {
		n, _ := strconv.Atoi(m[1])
		old := archForm.FindStringSubmatch(o.Arch)
		if old != nil {
			if v, _ := strconv.Atoi(old[1]); v > n {
				continue
			}
		}
		o.Arch = "sm_" + m[1] + m[2]
	}
	return nil
}

// setStream reads --default-stream.
func (o *Options) setStream(value string) error {
	switch value {
	case "legacy", "null":
		o.PerThread = false
	case "per-thread":
		o.PerThread = true
	default:
		return usage("--default-stream %s: want legacy or per-thread", value)
	}
	return nil
}

// setStandard reads -std. Ferry's headers need C++17, so that is the oldest.
func (o *Options) setStandard(value string) error {
	old := regexp.MustCompile(`^(c|gnu)\+\+(98|03|0x|11|1y|14)$`)
	if m := old.FindStringSubmatch(value); m != nil {
		value = m[1] + "++17"
	}
	o.both = append(o.both, "-std="+value)
	return nil
}

// contract reads -fmad.
func (o *Options) contract(value string) error {
	if value == "false" {
		o.device = append(o.device, "-ffp-contract=off")
	}
	return nil
}

// flush reads -ftz.
func (o *Options) flush(value string) error {
	if value == "true" {
		o.device = append(o.device, "-fcuda-flush-denormals-to-zero")
	}
	return nil
}

// noRelocation reads -rdc.
func noRelocation(value string) error {
	if value == "false" {
		return nil
	}
	return usage("%s", noRelocatable)
}

// forHost reads -Xcompiler: flags that commas part.
func (o *Options) forHost(value string) error {
	for _, word := range strings.Split(strings.Trim(value, `"'`), ",") {
		for _, f := range strings.Fields(word) {
			if err := o.clangForHost(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// clangForHost adds a flag to the compilation of host code, and to the link if it counts there.
func (o *Options) clangForHost(word string) error {
	before := len(o.both)
	if err := o.clang(word); err != nil {
		return err
	}
	o.host = append(o.host, o.both[before:]...)
	o.both = o.both[:before]
	return nil
}

// forLinker reads -Xlinker: words that commas part.
func (o *Options) forLinker(value string) error {
	for _, word := range strings.Split(value, ",") {
		o.link = append(o.link, "-Xlinker", word)
	}
	return nil
}

// check finds what is missing or does not fit together.
func (o *Options) check() error {
	compiled := slices.DeleteFunc(slices.Clone(o.Files), func(f string) bool { return !isSource(f) })
	switch {
	case len(o.Files) == 0:
		return usage("no CUDA file was given")
	case o.CompileOnly && len(compiled) == 0:
		return usage("-c: nothing is to be compiled")
	case o.CompileOnly && len(compiled) > 1 && o.Output != "":
		return usage("-c and -o: one file is compiled at a time")
	}
	if isSource(o.Output) {
		return usage("-o %s: has the name of a source", o.Output)
	}
	return o.checkOutputs(compiled)
}

// checkOutputs refuses to write over an input, or to write two objects to one file.
func (o *Options) checkOutputs(compiled []string) error {
	outputs := []string{o.program()}
	if o.CompileOnly {
		outputs = nil
		for _, f := range compiled {
			outputs = append(outputs, o.objectFile(f))
		}
	}
	for i, out := range outputs {
		if slices.Contains(outputs[:i], out) {
			return usage("-c: two files would be %s: compile one at a time, with -o", out)
		}
		there, err := os.Stat(out)
		for _, f := range o.Files {
			if in, failed := os.Stat(f); err == nil && failed == nil && os.SameFile(there, in) {
				return usage("%s: is an input, and would be the output: choose another by -o", out)
			}
		}
	}
	return nil
}
