package simt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// verifierVariable names a checkout of https://github.com/mc-imperial/gpuverify.
const verifierVariable = "FERRY_GPUVERIFY"

// verifierNotRun are kernels that clang refuses, that call functions without a body, that do
// not end in two seconds, and those for which no arguments met the preconditions.
var verifierNotRun = []string{"not-compiled", "no-body", "no-kernel", "unmet", "endless"}

// verifierResults are what the runs of a kernel end with. The last one of them counts.
var verifierResults = []string{"no-kernel", "unmet", "silent", "fault", "endless", "race"}

// TestGPUVerify compares the check for races with what GPUVerify says of the kernels of its
// test suite. testdata/gpuverify.txt lists where they differ, and why.
func TestGPUVerify(t *testing.T) {
	root := os.Getenv(verifierVariable)
	if root == "" {
		t.Skip(verifierVariable + " does not name a checkout of github.com/mc-imperial/gpuverify")
	}
	compiler, reasons, counts := compiletest.Clang(t), readReasons(t), map[string]int{}
	err := filepath.WalkDir(filepath.Join(root, "testsuite"), func(path string, d fs.DirEntry, err error) error {
		ext := filepath.Ext(path)
		if err != nil || ext != ".cu" && ext != ".cl" {
			return err
		}
		f := readVerifier(t, path)
		t.Run(f.name, func(t *testing.T) {
			got := f.check(t, compiler)
			reason := reasons[f.name+" "+got]
			if got != f.want && reason == "" && !slices.Contains(verifierNotRun, got) {
				t.Errorf("the check says %s, the suite %s: testdata/gpuverify.txt has no line %q", got, f.want, f.name+" "+got)
			}
			counts[fmt.Sprintf("%s: the suite says %s, the check %s %s", ext, f.want, got, reason)]++
		})
		return nil
	})
	if err != nil || len(counts) == 0 {
		t.Fatal("no kernels: ", err)
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%s: %d", k, counts[k])
	}
}

// readReasons returns the reason for each kernel and result that differ from the suite.
func readReasons(t *testing.T) map[string]string {
	b, err := os.ReadFile("testdata/gpuverify.txt")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([^# ]+ \S+) (.+)$`).FindAllStringSubmatch(string(b), -1) {
		reasons[m[1]] = m[2]
	}
	return reasons
}

// check runs the kernels with several arguments, optimised and as they are written.
func (f *verifierFile) check(t *testing.T, compiler string) string {
	worst := 0
	for _, level := range []string{"-O2", "-O0"} {
		source, err := f.compile(compiler, level)
		switch {
		case err != nil:
			t.Log(err)
			return "not-compiled"
		case strings.Contains(source, ".extern .func"):
			return "no-body"
		}
		for name := range load(t, newSpace(), "kernel.ptx", source).kernels {
			worst = max(worst, slices.Index(verifierResults, f.runs(t, source, name)))
		}
	}
	return verifierResults[worst]
}

// runs runs a kernel with four fillings of the buffers and with several numbers.
func (f *verifierFile) runs(t *testing.T, source, kernel string) string {
	result, tries := "unmet", 4
	if slices.ContainsFunc(f.declared(kernel), func(p string) bool { return p != "" && !strings.ContainsAny(p, "*[") }) {
		tries *= len(f.values)
	}
	for try := range tries {
		r := verifierRun{f, load(t, newSpace(), "kernel.ptx", source), try % 4, try / 4}
		switch got := r.run(t, kernel); got {
		case "unmet":
		case "silent":
			result = got
		default:
			return got
		}
	}
	return result
}

// verifierRun is one run of a kernel.
type verifierRun struct {
	*verifierFile
	m            *module
	filling, try int // of buffers and variables, and which numbers
}

// run returns what the run ends with.
func (r *verifierRun) run(t *testing.T, kernel string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	s, err := Run(ctx, r.launch(r.m.kernels[kernel]))
	fault, _ := errors.AsType[*cu.Fault](err)
	unmet := r.m.vars["gv_unmet"]
	switch {
	case unmet != nil && unmet.Data[0] != 0 || fault != nil && strings.HasPrefix(fault.Op, "trap"):
		return "unmet"
	case slices.ContainsFunc(s.Findings, func(x Finding) bool { return x.Sort == kernelrace.Race || x.Sort == kernelrace.Divergent }):
		return "race"
	case errors.Is(err, context.DeadlineExceeded):
		return "endless"
	case err != nil:
		t.Log(err)
		return "fault"
	}
	return "silent"
}

// launch returns the launch of a kernel, and fills the variables of CUDA. Those of OpenCL
// get their values from the source alone.
func (r *verifierRun) launch(kernel *Kernel) *Launch {
	l := &Launch{Kernel: kernel, Grid: r.grid, Block: r.block, Memory: r.m.mem, Counters: 1, Check: true, SharedBytes: 128 << 10}
	l.Cooperative, l.Workspace = true, put(r.m.mem, []uint32{8, 1 << 31}).Base
	l.Params = make([]byte, kernel.ParamBytes)
	declared := slices.Concat(r.declared(kernel.Name), make([]string, len(kernel.Params)))
	for i, p := range kernel.Params {
		choice := int(uint32(r.try*(i+1)+r.try*r.try*i) * 2654435761 >> 16)
		for b := l.Params[p.Offset:][:p.Size]; len(b) > 0; b = b[min(8, len(b)):] {
			storeBytes(b, r.argument(kernel, p, declared[i], choice))
		}
	}
	for name, v := range r.m.vars {
		for i := 0; r.filling > 0 && filepath.Ext(r.path) == ".cu" && !strings.HasPrefix(name, "gv_") && i < len(v.Data); i += 4 {
			v.Data[i] = 1
		}
	}
	return l
}

// argument returns a function, an offset in shared memory, a pointer to a buffer, or a number.
func (r *verifierRun) argument(kernel *Kernel, p ptx.Param, declared string, choice int) uint64 {
	bodies := slices.DeleteFunc(slices.Clone(r.m.list), func(fn *function) bool { return fn.src.Entry })
	switch pointer := strings.ContainsAny(declared, "*["); {
	case strings.Contains(declared, "funcType") && len(bodies) > 0:
		return bodies[choice%len(bodies)].address()
	case pointer && strings.Contains(declared, "local "):
		return uint64(alignUp(kernel.SharedBytes, 1024) + p.Offset*1024)
	case pointer:
		return r.buffer(256 << 10)
	case p.Size > 8 || p.Align == 8 && !strings.Contains(declared, "size_t"):
		return r.buffer(16 << 10) // of a structure of pointers
	}
	return r.number(declared, choice)
}

// buffer returns the address of a new buffer.
func (r *verifierRun) buffer(words int) uint64 {
	data := make([]uint32, words)
	for i := range data {
		data[i] = []uint32{0, 1, uint32(i % 4), uint32(i)}[r.filling]
	}
	return put(r.m.mem, data).Base
}
