package random

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/differ"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

const (
	perModule = 16 // programs that are compiled together
	maxShrunk = 64 // the most wrong programs that a process shrinks
)

// task is the programs that one process compares. There are several processes, because a
// driver compiles for one thread at a time.
type task struct {
	Ranges []seedRange   `json:"ranges"`
	Skip   int           `json:"skip"`  // how many of the programs to skip
	For    time.Duration `json:"for"`   // no module is started after this time
	Plain  bool          `json:"plain"` // compile without optimisation, because the driver's compiler crashes

	Rehearse *rehearsal `json:"rehearse,omitempty"`
}

// rehearsal replaces hardware by the software GPU with planted errors, by seed.
type rehearsal struct {
	Crash []uint64 `json:"crash"` // the process exits
	Wrong []uint64 `json:"wrong"` // the output is wrong
}

// seedRange selects programs with consecutive seeds.
type seedRange struct {
	From  uint64 `json:"from"`
	Count int    `json:"count"`
}

func (k task) programs() []*Program {
	var all []*Program
	for _, s := range k.Ranges {
		all = append(all, programs(s.From, s.Count)...)
	}
	return all
}

// results is the results of programs.
type results struct {
	Outputs  map[uint64]string `json:"outputs"`  // by seed, of hardware
	Wrong    []uint64          `json:"wrong"`    // seeds of programs with a difference
	Findings []finding         `json:"findings"` // details of at most maxShrunk wrong programs of a process
}

// finding describes a wrong program.
type finding struct {
	Seed  uint64 `json:"seed"`
	Kind  string `json:"kind"`  // the shrunk program without its operands; programs with the same error have the same kind
	Text  string `json:"text"`  // the shrunk program, and threads that differ
	Plain bool   `json:"plain"` // without optimisation hardware agrees with the software GPU
}

// taskVariable has the task of a process that TestHardware starts. The output of the
// process has two lines for each module: one when the module is started, and one with
// the results. They begin with this name and the number of the module's first program.
const taskVariable = "FERRY_RANDOM_TASK"

// TestTask runs one task.
func TestTask(t *testing.T) {
	text := os.Getenv(taskVariable)
	if text == "" {
		t.Skip(taskVariable + " is not set")
	}
	var k task
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		t.Fatal(err)
	}
	c := &campaign{soft: software(t), end: time.Now().Add(k.For), plain: k.Plain, rehearsal: k.Rehearse}
	if c.hard = c.soft; k.Rehearse == nil {
		c.hard = gputest.Driver(t)
	}
	g, err := ferry.OpenDriver(c.hard, 0) // keeps the context, which else would be created for each module
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c.compare(k.programs(), k.Skip)
}

// start runs each task in a process and returns the results of all.
func start(t *testing.T, all []task) results {
	sum := results{Outputs: map[uint64]string{}}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, k := range all {
		wait.Go(func() {
			f, err := k.start()
			mu.Lock()
			defer mu.Unlock()
			sum.add(f)
			if err != nil {
				t.Errorf("programs %v: %v", k.Ranges, err)
			}
		})
	}
	wait.Wait()
	return sum
}

// TestStart checks that all other programs have results when one program crashes its
// process.
func TestStart(t *testing.T) {
	k := task{For: time.Minute, Rehearse: &rehearsal{Crash: []uint64{20}, Wrong: []uint64{7, 33, 105}}}
	first, second := k, k
	first.Ranges, second.Ranges = []seedRange{{1, 40}, {101, 10}}, []seedRange{{201, 3}}
	all := start(t, []task{first, second})
	slices.Sort(all.Wrong)
	if want := []uint64{7, 20, 33, 105}; !slices.Equal(all.Wrong, want) {
		t.Errorf("wrong are %v, want %v", all.Wrong, want)
	}
	for seed := range uint64(204) {
		run := seed >= 1 && seed <= 40 && seed != 20 || seed > 100 && seed <= 110 || seed > 200
		if _, ok := all.Outputs[seed]; ok != run {
			t.Errorf("program %d was run: %v, want %v", seed, ok, run)
		}
	}
	crashes := 0
	for _, f := range all.Findings {
		crashes += strings.Count(f.Kind, "the driver crashes")
	}
	if len(all.Findings) != 4 || crashes != 1 {
		t.Errorf("findings %v with %d crashes, want 4 with 1", all.Findings, crashes)
	}
}

// start runs a task. If a process crashes, the programs of its unfinished modules run one
// by one, and another process continues after them.
func (k task) start() (results, error) {
	sum := results{Outputs: map[uint64]string{}}
	all, end := k.programs(), time.Now().Add(k.For)
	for {
		k.For = time.Until(end)
		begun, output, err := k.process(&sum)
		if err == nil {
			return sum, nil
		}
		if len(begun) == 0 {
			return sum, fmt.Errorf("%w: %s", err, output)
		}
		for _, at := range begun {
			for _, p := range all[at:min(at+perModule, len(all))] {
				if err := k.alone(p, &sum); err != nil {
					return sum, err
				}
			}
			k.Skip = max(k.Skip, at+perModule)
		}
	}
}

// alone runs a program in a process of its own. A crash is a finding.
func (k task) alone(p *Program, sum *results) error {
	k.Ranges, k.Skip, k.For = []seedRange{{p.Seed, 1}}, 0, time.Minute
	begun, output, err := k.process(sum)
	if err == nil || len(begun) == 0 {
		return err
	}
	f := finding{Seed: p.Seed, Kind: "the driver crashes", Text: fmt.Sprintf("seed %d: %v\n%.2000s\n%s", p.Seed, err, output, p.Text("k"))}
	var plain results
	k.Plain = true
	_, _, err = k.process(&plain)
	f.Plain = err == nil && len(plain.Wrong) == 0
	sum.add(results{Wrong: []uint64{p.Seed}, Findings: []finding{f}})
	return nil
}

// process runs a task in a process and adds the results to sum. It returns the modules
// that were started but not finished, and the rest of the output.
func (k task) process(sum *results) (begun []int, output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*max(k.For, 0)+time.Minute)
	defer cancel()
	text, err := json.Marshal(k)
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestTask$", "-test.v")
	cmd.Env = append(os.Environ(), taskVariable+"="+string(text), "CUDA_CACHE_DISABLE=1") // no module is compiled twice
	out, err := cmd.CombinedOutput()
	begun, output, wrong := parseOutput(string(out), sum)
	return begun, output, cmp.Or(wrong, err)
}

// parseOutput reads the output of a process.
func parseOutput(out string, sum *results) (begun []int, rest string, err error) {
	for line := range strings.Lines(out) {
		answer, ok := strings.CutPrefix(line, taskVariable)
		if !ok {
			rest += line
			continue
		}
		var at int
		if _, err := fmt.Sscan(answer, &at); err != nil {
			return nil, out, err
		}
		_, text, done := strings.Cut(answer, "{")
		if !done {
			begun = append(begun, at)
			continue
		}
		var f results
		if err := json.Unmarshal([]byte("{"+text), &f); err != nil {
			return nil, out, err
		}
		sum.add(f)
		begun = slices.DeleteFunc(begun, func(i int) bool { return i == at })
	}
	return begun, rest, nil
}

func (f *results) add(g results) {
	if f.Outputs == nil {
		f.Outputs = map[uint64]string{}
	}
	maps.Copy(f.Outputs, g.Outputs)
	f.Wrong = append(f.Wrong, g.Wrong...)
	f.Findings = append(f.Findings, g.Findings...)
}

// campaign compares two drivers.
type campaign struct {
	hard, soft cu.Driver
	end        time.Time
	plain      bool
	rehearsal  *rehearsal
	shrunk     atomic.Int32
	printing   sync.Mutex
}

// compare runs programs on both drivers, two modules at a time.
func (c *campaign) compare(all []*Program, skip int) {
	work := make(chan int)
	var wait sync.WaitGroup
	for range min(2, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for at := range work {
				f := results{Outputs: map[uint64]string{}}
				c.module(all[at:min(at+perModule, len(all))], &f)
				text, err := json.Marshal(f)
				if err != nil {
					panic(fmt.Sprint("BUG: ", err))
				}
				c.print(at, string(text))
			}
		})
	}
	for at := skip; at < len(all) && time.Now().Before(c.end); at += perModule {
		c.print(at, "")
		work <- at
	}
	close(work)
	wait.Wait()
}

// print writes a line for [parseOutput].
func (c *campaign) print(at int, text string) {
	c.printing.Lock()
	defer c.printing.Unlock()
	fmt.Printf("\n%s %d %s\n", taskVariable, at, text)
}

// module runs a module's programs. If the module does not compile, each program runs in
// its own module.
func (c *campaign) module(some []*Program, f *results) {
	want, err := c.hardware(some)
	refuser := "hardware"
	var got [][]byte
	if err == nil {
		refuser = "the software GPU"
		got, err = run(c.soft, some)
	}
	if err != nil {
		if len(some) == 1 {
			text := err.Error()
			f.Wrong = append(f.Wrong, some[0].Seed)
			f.Findings = append(f.Findings, finding{Seed: some[0].Seed, Kind: refuser + " refuses", Text: fmt.Sprintf("seed %d: %.600s\n%s", some[0].Seed, text, some[0].Text("k"))})
			return
		}
		for _, p := range some {
			c.module([]*Program{p}, f)
		}
		return
	}
	for i, p := range some {
		f.Outputs[p.Seed] = differ.Sum(want[i])
		if string(got[i]) != string(want[i]) {
			f.Wrong = append(f.Wrong, p.Seed)
			c.disagree(p, f)
		}
	}
}

// hardware runs a module's programs on hardware.
func (c *campaign) hardware(some []*Program) ([][]byte, error) {
	if c.plain {
		out, err := runPlain(c.hard, some[0])
		return [][]byte{out}, err
	}
	out, err := run(c.hard, some)
	for i, p := range some {
		switch r := c.rehearsal; {
		case r == nil || err != nil:
		case slices.Contains(r.Crash, p.Seed):
			os.Exit(3)
		case slices.Contains(r.Wrong, p.Seed):
			out[i][0]++
		}
	}
	return out, err
}

// operand matches registers and constants, in which programs with the same error differ.
var operand = regexp.MustCompile(`%[a-z]+\d|-?\b\d\w*`)

// disagree shrinks a wrong program and adds a finding.
func (c *campaign) disagree(p *Program, to *results) {
	if c.plain || c.shrunk.Add(1) > maxShrunk {
		return
	}
	small := Shrink(p, func(q *Program) bool {
		want, err := run(c.hard, []*Program{q})
		if err != nil {
			return false
		}
		got, err := run(c.soft, []*Program{q})
		return err == nil && string(got[0]) != string(want[0])
	})
	text := body(small)
	f := finding{Seed: p.Seed, Kind: operand.ReplaceAllString(text, "_")}
	example, plain := c.example(small)
	f.Text, f.Plain = fmt.Sprintf("seed %d:\n%s%s", p.Seed, text, example), plain
	to.Findings = append(to.Findings, f)
}

// body returns a program's statements without the prologue and the epilogue.
func body(p *Program) string {
	var s strings.Builder
	(&writer{s: &s}).nodes(p.body, 0)
	return s.String()
}

// example describes up to three threads that differ, with their inputs and both results.
// plain reports whether hardware agrees with the software GPU without optimisation.
func (c *campaign) example(p *Program) (text string, plain bool) {
	want, err := run(c.hard, []*Program{p})
	if err != nil {
		return err.Error(), false
	}
	got, err := run(c.soft, []*Program{p})
	if err != nil {
		return err.Error(), false
	}
	var s strings.Builder
	in := Inputs(p.Seed, threads)
	for i, n := 0, 0; i < threads && n < 3; i++ {
		of := func(b []byte) []byte { return b[i*Record : (i+1)*Record] }
		if d := Different(of(got[0]), of(want[0])); d != "" {
			n++
			fmt.Fprintf(&s, "thread %d, inputs %s\n\tsoftware|hardware: %s\n", i, Registers(of(in)), d)
		}
	}
	unoptimised, err := runPlain(c.hard, p)
	if err != nil {
		fmt.Fprintf(&s, "without optimisation: %v\n", err)
	}
	return s.String(), err == nil && string(unoptimised) == string(got[0])
}

// runPlain compiles a program with ptxas without optimisation and runs it on hardware.
func runPlain(d cu.Driver, p *Program) ([]byte, error) {
	dir, err := os.MkdirTemp("", "random")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	text, cubin := filepath.Join(dir, "k.ptx"), filepath.Join(dir, "k.cubin")
	if err := os.WriteFile(text, []byte(Module([]*Program{p})), 0o666); err != nil {
		return nil, err
	}
	if log, err := exec.Command("ptxas", "-O0", "-arch=sm_90", text, "-o", cubin).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, log)
	}
	image, err := os.ReadFile(cubin)
	if err != nil {
		return nil, err
	}
	out, err := runImage(d, image, []*Program{p})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}
