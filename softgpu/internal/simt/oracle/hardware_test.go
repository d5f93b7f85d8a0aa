package oracle

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu/internal/ptxforms"
)

var (
	update  = flag.Bool("update", false, "record what the GPU does")
	goldens = flag.String("goldens", "testdata", "folder of the recorded results")
	details = flag.String("details", "", "file for the whole results of forms that differ from the software GPU, gzip")
)

// gpu runs kernels on hardware.
type gpu struct {
	t                *testing.T
	d                cu.Driver
	ctx              cu.Context
	in, out, scratch cu.DevicePtr
}

func newGPU(t *testing.T) *gpu {
	d := gputest.Driver(t)
	g := &gpu{t: t, d: d}
	var err error
	if g.ctx, err = d.DevicePrimaryCtxRetain(gputest.Devices(t, d, 1)[0]); err != nil {
		t.Fatal(err)
	}
	for _, b := range []struct {
		p *cu.DevicePtr
		n int
	}{{&g.in, len(tableBytes)}, {&g.out, threads * outBytes}, {&g.scratch, threads*cellBytes + 1<<18}} {
		if *b.p, err = d.MemAlloc(g.ctx, uintptr(b.n)); err != nil {
			t.Fatal(err)
		}
	}
	if err = d.MemcpyHtoD(g.ctx, g.in, cu.HostPtr(&tableBytes[0]), uintptr(len(tableBytes))); err != nil {
		t.Fatal(err)
	}
	return g
}

// batch is a set of kernels that are compiled together by the ptxas in the path.
type batch struct {
	kernels []*kernel
	cubin   []byte
	err     error
	log     string // output of ptxas
}

// source returns the PTX of a batch, and the first line of each kernel.
func (b *batch) source() (text string, lines []int) {
	var s strings.Builder
	s.WriteString(head + b.kernels[0].decl)
	for i, k := range b.kernels {
		lines = append(lines, strings.Count(s.String(), "\n")+1)
		s.WriteString(k.source(fmt.Sprint("k", i)))
	}
	return s.String(), lines
}

// compile runs ptxas. It is a process of its own because some kernels crash it.
func (b *batch) compile(dir string, n int) {
	text, _ := b.source()
	file := filepath.Join(dir, fmt.Sprint(n))
	if b.err = os.WriteFile(file+".ptx", []byte(text), 0o666); b.err != nil {
		return
	}
	log, err := exec.Command("ptxas", "-arch=sm_90a", file+".ptx", "-o", file+".cubin").CombinedOutput()
	if err != nil {
		b.err, b.log = err, string(log)
		return
	}
	b.cubin, b.err = os.ReadFile(file + ".cubin")
}

var errorLine = regexp.MustCompile(`line (\d+); +(?:error|fatal) *: (.*)`)

// parts splits a batch: the kernels that ptxas complains about, each alone, and the
// others. If ptxas does not say which kernel is wrong, parts returns two halves.
func (b *batch) parts() []*batch {
	_, lines := b.source()
	why := map[int]string{}
	for _, m := range errorLine.FindAllStringSubmatch(b.log, -1) {
		line, _ := strconv.Atoi(m[1])
		if i, _ := slices.BinarySearch(lines, line+1); i > 0 && why[i-1] == "" {
			why[i-1] = m[2]
		}
	}
	n := len(b.kernels)
	if len(why) == 0 {
		return []*batch{{kernels: b.kernels[:n/2]}, {kernels: b.kernels[n/2:]}}
	}
	rest := &batch{}
	var out []*batch
	for i, k := range b.kernels {
		if why[i] != "" {
			out = append(out, &batch{kernels: []*kernel{k}, err: errors.New(why[i])})
		} else {
			rest.kernels = append(rest.kernels, k)
		}
	}
	if len(rest.kernels) > 0 {
		out = append(out, rest)
	}
	return out
}

// compileAll compiles batches in parallel, and again without the kernels that fail.
func compileAll(t *testing.T, list []*batch) []*batch {
	dir := t.TempDir()
	var done []*batch
	for round := 0; len(list) > 0; round++ {
		var wg sync.WaitGroup
		work := make(chan int)
		for range runtime.NumCPU() {
			wg.Go(func() {
				for n := range work {
					list[n].compile(dir, n)
				}
			})
		}
		for n := range list {
			work <- n
		}
		close(work)
		wg.Wait()
		var retry []*batch
		for _, b := range list {
			if b.err == nil || len(b.kernels) == 1 {
				done = append(done, b)
				continue
			}
			for _, p := range b.parts() {
				if p.err != nil {
					done = append(done, p)
				} else {
					retry = append(retry, p)
				}
			}
		}
		list = retry
	}
	return done
}

// batches groups the kernels of all forms. Those that may stop the GPU come last.
func batches(t *testing.T) []*batch {
	var list []*batch
	open := map[string]*batch{}
	risky := []string{"mbarrier", "cp", "discard", "applypriority", "trap", "brkpt", "stmatrix", "ldmatrix", "alloca", "stacksave", "stackrestore", "bar", "barrier", "setmaxnreg"}
	for _, last := range []bool{false, true} {
		for _, f := range ptxforms.Forms() {
			k, ok := kernelOf(f)
			if !ok {
				t.Fatalf("%s: no kernel", f)
			}
			if slices.Contains(risky, k.form.op) != last || k.form.op == "setmaxnreg" {
				continue
			}
			b := open[k.decl]
			if b == nil || len(b.kernels) == 48 || last != slices.Contains(risky, b.kernels[0].form.op) {
				b = &batch{}
				open[k.decl] = b
				list = append(list, b)
			}
			b.kernels = append(b.kernels, k)
		}
	}
	return list
}

// run returns the output of a kernel on the GPU.
func (g *gpu) run(m cu.Module, name string) ([]byte, error) {
	f, err := g.d.ModuleGetFunction(g.ctx, m, name)
	if err != nil {
		return nil, err
	}
	if err := g.d.MemsetD8(g.ctx, g.out, poison, threads*outBytes); err != nil {
		return nil, err
	}
	params, _ := binary.Append(nil, binary.LittleEndian, []uint64{uint64(g.in), uint64(g.out), uint64(g.scratch)})
	params = append(append(params, make([]byte, 8)...), argument()...)
	if err := g.d.LaunchKernel(g.ctx, f, cu.Dim3{X: threads / block, Y: 1, Z: 1}, cu.Dim3{X: block, Y: 1, Z: 1}, 0, 0, params); err != nil {
		return nil, err
	}
	out := make([]byte, threads*outBytes)
	return out, g.d.MemcpyDtoH(g.ctx, cu.HostPtr(&out[0]), g.out, uintptr(len(out)))
}

// each calls do with the output of each kernel on the GPU, nil if ptxas does not
// compile it.
func (g *gpu) each(list []*batch, do func(k *kernel, out []byte)) {
	for _, b := range compileAll(g.t, list) {
		if b.err != nil {
			g.t.Logf("%s: does not compile: %v %.300s", b.kernels[0].form.text, b.err, b.log)
			do(b.kernels[0], nil)
			continue
		}
		m, err := g.d.ModuleLoadData(g.ctx, b.cubin)
		if err != nil {
			g.t.Errorf("%s and %d more: %v", b.kernels[0].form.text, len(b.kernels)-1, err)
			continue
		}
		for i, k := range b.kernels {
			out, err := g.run(m, fmt.Sprint("k", i))
			if err != nil {
				g.t.Errorf("%s: %v", k.form.text, err)
				continue
			}
			do(k, out)
		}
		_ = g.d.ModuleUnload(g.ctx, m)
	}
}

// hash returns what the recorded results keep of an output.
func hash(out []byte) string {
	h := fnv.New64a()
	h.Write(out)
	return fmt.Sprintf("%016x", h.Sum64())
}

// TestHardware runs every form on a GPU and on the software GPU, and compares.
func TestHardware(t *testing.T) {
	g := newGPU(t)
	var text, values, log bytes.Buffer
	zip := gzip.NewWriter(&log)
	count := map[string]int{}
	g.each(batches(t), func(k *kernel, out []byte) {
		if out == nil {
			fmt.Fprintf(&text, "%s -\n", k.form.text)
			count["refused by ptxas"]++
			return
		}
		fmt.Fprintf(&text, "%s %s\n", k.form.text, hash(out))
		if isApproximate(k.form) {
			n := typeBits[k.form.last()] / 8
			fmt.Fprintf(&values, "%s ", k.form.text)
			for i := range threads {
				fmt.Fprintf(&values, "%x", out[i*outBytes:i*outBytes+n])
			}
			values.WriteString("\n")
		}
		soft, err := runSoft(k)
		if err != nil {
			t.Errorf("%s: %v", k.form.text, err)
			return
		}
		if bytes.Equal(out, soft) {
			count["same"]++
			return
		}
		count["differ"]++
		n, first := differences(out, soft)
		t.Logf("%s: %d threads differ; thread %d: %s", k.form.text, n, first, k.describe(first, out, soft))
		fmt.Fprintf(zip, "%s\n%x\n", k.form.text, out)
	})
	zip.Close()
	t.Log(count)
	if *details != "" {
		if err := os.WriteFile(*details, log.Bytes(), 0o666); err != nil {
			t.Error(err)
		}
	}
	if *update {
		g.write("hashes.txt", sortLines(text.String()))
		g.write("approximations.txt", sortLines(values.String()))
	}
}

func sortLines(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// write writes a file of recorded results.
func (g *gpu) write(file, text string) {
	dev, _ := g.d.DeviceGet(0)
	name, _ := g.d.DeviceGetName(dev)
	version, _ := g.d.DriverGetVersion()
	head := fmt.Sprintf("# %s, CUDA driver API %d, driver %s, ptxas %s, commit %s\n# FERRY_REQUIRE_GPU=1 go test ./softgpu/internal/simt/oracle -run TestHardware -update\n",
		name, version, driverVersion(), ptxasVersion(), os.Getenv("FERRY_COMMIT"))
	if err := os.WriteFile(filepath.Join(*goldens, file), []byte(head+text), 0o666); err != nil {
		g.t.Error(err)
	}
}

// ptxasVersion returns the version of the compiler: the word of its output that
// starts with V.
func ptxasVersion() string {
	b, err := exec.Command("ptxas", "--version").Output()
	if err != nil {
		return "unknown"
	}
	version := "unknown"
	for _, w := range strings.Fields(string(b)) {
		if strings.HasPrefix(w, "V") && strings.Contains(w, ".") {
			version = w
		}
	}
	return version
}

// driverVersion returns the version that the kernel module reports.
func driverVersion() string {
	b, err := os.ReadFile("/sys/module/nvidia/version")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// differences counts the threads whose results differ.
func differences(a, b []byte) (n, first int) {
	first = -1
	for i := range threads {
		if !bytes.Equal(a[i*outBytes:(i+1)*outBytes], b[i*outBytes:(i+1)*outBytes]) {
			if n++; first < 0 {
				first = i
			}
		}
	}
	return n, first
}

// describe returns the operands and results of a thread as text.
func (k *kernel) describe(i int, hard, soft []byte) string {
	s := ""
	for n, o := range k.in {
		s += fmt.Sprintf("%c=%#x ", 'a'+n, input(o.class, n, 0, i))
	}
	n := 0
	for _, w := range k.out {
		n += max(w.bits/8, 4)
	}
	n = min(n, 16)
	return s + fmt.Sprintf("GPU %x software %x", hard[i*outBytes:i*outBytes+n], soft[i*outBytes:i*outBytes+n])
}

// compareOnGPU runs kernels on a GPU and on the software GPU, and compares the results. With
// -update it records those of the GPU.
func compareOnGPU(t *testing.T, kernels []*kernel, file string) {
	t.Helper()
	g := newGPU(t)
	var text bytes.Buffer
	var list []*batch
	for some := range slices.Chunk(kernels, 32) {
		list = append(list, &batch{kernels: some})
	}
	g.each(list, func(k *kernel, out []byte) {
		if out == nil {
			fmt.Fprintf(&text, "%s %s\n", k.form.text, refusedByCompiler)
			return
		}
		fmt.Fprintf(&text, "%s %s\n", k.form.text, hash(out))
		soft, err := runSoft(k)
		if err != nil {
			t.Errorf("%s: %v", k.form.text, err)
			return
		}
		if n, first := differences(out, soft); n > 0 {
			t.Errorf("%s: %d threads differ; thread %d: %s", k.form.text, n, first, k.describe(first, out, soft))
		}
	})
	if *update {
		g.write(file, sortLines(text.String()))
	}
}
