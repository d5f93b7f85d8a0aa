package simt

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/cu"
)

var (
	verifierKernel   = regexp.MustCompile(`(?s)(?:__global__|kernel)\s[^;{]*?void\s+(\w+)\s*\(([^)]*)\)`)
	verifierShape    = regexp.MustCompile(`--(blockDim|gridDim|local_size|num_groups|global_size)=\[?([0-9,]+)`)
	verifierMacro    = regexp.MustCompile(`(?m)^//.*-D(\S+)`)
	verifierDeclared = regexp.MustCompile(`(?m)^(__device__\s+(\w+)\s+\w+\([^)]*\));`)
	verifierGiven    = regexp.MustCompile(`__requires\((\w+) == ([0-9]+)\)`)
	verifierNumber   = regexp.MustCompile(`\b[0-9]{1,4}\b`)
)

// verifierFile is one source of the suite.
type verifierFile struct {
	name, path, text string
	want             string // what the check has to say: race or silent
	grid, block      cu.Dim3
	params           map[string][]string // the parameters of each kernel, as they are declared
	values           []int               // for parameters that are numbers: the numbers of the source
}

// readVerifier reads a source. Its first line says what to expect, the next how to launch it.
func readVerifier(t *testing.T, path string) *verifierFile {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(filepath.ToSlash(filepath.Dir(path)), "/testsuite/")
	f := &verifierFile{name: name, path: path, text: string(b), want: "race", values: []int{0, 1, 2, 3}, params: map[string][]string{}}
	if strings.HasPrefix(strings.ToLower(f.text), "//pass") {
		f.want = "silent"
	}
	f.readShape()
	for _, s := range verifierNumber.FindAllString(f.text, -1) {
		if n, _ := strconv.Atoi(s); !slices.Contains(f.values, n) && len(f.values) < 16 {
			f.values = append(f.values, n)
		}
	}
	for _, m := range verifierKernel.FindAllStringSubmatch(f.text, -1) {
		f.params[m[1]] = strings.Split(m[2], ",")
	}
	return f
}

// readShape finds the blocks and threads of the launch, and cuts large ones.
func (f *verifierFile) readShape() {
	shape := map[string]cu.Dim3{}
	for _, m := range verifierShape.FindAllStringSubmatch(f.text, -1) {
		d := cu.Dim3{X: 1, Y: 1, Z: 1}
		fmt.Sscanf(m[2], "%d,%d,%d", &d.X, &d.Y, &d.Z)
		shape[m[1]] = d
	}
	one, none := cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{}
	f.block = cmp.Or(shape["blockDim"], shape["local_size"], one)
	f.grid = cmp.Or(shape["gridDim"], shape["num_groups"], one)
	if all := shape["global_size"]; all != none {
		f.grid = cu.Dim3{X: max(all.X/f.block.X, 1), Y: max(all.Y/f.block.Y, 1), Z: max(all.Z/f.block.Z, 1)}
	}
	shrink(&f.block, 1024)
	shrink(&f.grid, max(4, 8192/(f.block.X*f.block.Y*f.block.Z)))
}

// shrink halves the largest side until there are at most n.
func shrink(d *cu.Dim3, n uint32) {
	for d.X*d.Y*d.Z > n {
		*slices.MaxFunc([]*uint32{&d.X, &d.Y, &d.Z}, func(a, b *uint32) int { return cmp.Compare(*a, *b) }) /= 2
	}
}

// declared returns the parameters of the kernel with a name in PTX, which contains that of
// the source.
func (f *verifierFile) declared(kernel string) []string {
	longest := ""
	for name := range f.params {
		if strings.Contains(kernel, name) && len(name) > len(longest) {
			longest = name
		}
	}
	return f.params[longest]
}

// number returns a number of the source, or the one that a precondition asks for.
func (f *verifierFile) number(declared string, choice int) uint64 {
	value := f.values[choice%len(f.values)]
	for _, g := range verifierGiven.FindAllStringSubmatch(f.text, -1) {
		if strings.HasSuffix(declared, " "+g[1]) {
			value, _ = strconv.Atoi(g[2])
		}
	}
	return uint64(value)
}

// compile returns the PTX of the file.
func (f *verifierFile) compile(compiler, level string) (string, error) {
	var define []string
	for _, m := range verifierMacro.FindAllStringSubmatch(f.text, -1) {
		define = append(define, m[1])
	}
	if filepath.Ext(f.path) == ".cl" {
		return f.compileCL(compiler, level, define)
	}
	header := "#include \"gpuverify.h\"\n"
	if level == "-O0" {
		header += "#pragma clang optimize off\n"
	}
	text := verifierDeclared.ReplaceAllString(f.text, "$1 { return $2(gv_choice()); }")
	o := &compile.Options{Compiler: compiler, Include: []string{"testdata"}, Define: define}
	r, err := compile.Source(context.Background(), "kernel.cu", []byte(header+"#line 1\n"+text), o)
	if err != nil {
		return "", err
	}
	return string(r.PTX), nil
}

// compileCL returns the PTX of OpenCL.
func (f *verifierFile) compileCL(compiler, level string, define []string) (string, error) {
	args := strings.Fields("-x cl -cl-std=CL1.2 --target=nvptx64-nvidia-cuda -march=sm_80 -Xclang -target-feature -Xclang +ptx73 " +
		"-Xclang -finclude-default-header -w -S -o - -I testdata -include gpuverify.h")
	for _, d := range define {
		args = append(args, "-D"+d)
	}
	out, err := exec.Command(compiler, append(args, level, f.path)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}
