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
	"github.com/ferrygpu/ferry/internal/differ"
	"github.com/ferrygpu/ferry/internal/gputest"
)

// perModule is how many programs are compiled together, maxShrunk how many wrong
// ones a process makes small.
const (
	perModule = 16
	maxShrunk = 64
)

// task is what one process compares: a driver compiles for one thread at a time.
type task struct {
	Spans []span        `json:"spans"`
	Skip  int           `json:"skip"`  // so many programs of them
	For   time.Duration `json:"for"`   // no module is begun after
	Plain bool          `json:"plain"` // only without optimisation: the driver's compiler crashes

	Rehearse *rehearsal `json:"rehearse,omitempty"`
}

// rehearsal has the software GPU as hardware, with faults of programs, by seed.
type rehearsal struct {
	Dies  []uint64 `json:"dies"`  // the process
	Wrong []uint64 `json:"wrong"` // the output
}

// span is programs of seeds that follow each other.
type span struct {
	From  uint64 `json:"from"`
	Count int    `json:"count"`
}

func (k task) programs() []*Program {
	var all []*Program
	for _, s := range k.Spans {
		all = append(all, programs(s.From, s.Count)...)
	}
	return all
}

// found is what came of programs.
type found struct {
	Outputs map[uint64]string `json:"outputs"` // by seed, of hardware
	Wrong   []uint64          `json:"wrong"`   // seeds
	Looked  []finding         `json:"looked"`  // at wrong ones, no more than maxShrunk a process
}

// finding is a program that went wrong.
type finding struct {
	Seed  uint64 `json:"seed"`
	Kind  string `json:"kind"`  // the small program without its operands: those that go wrong alike have one
	Text  string `json:"text"`  // the small program, and threads that differ
	Plain bool   `json:"plain"` // compiled without optimisation it does what the software GPU does
}

// taskVariable has the task of a process that TestHardware has started. Its output
// has lines that begin with it, for each module one with the number of its first
// program when it is begun, and one with what was found too when it is done.
const taskVariable = "FERRY_RANDOM_TASK"

// TestTask does one task.
func TestTask(t *testing.T) {
	text := os.Getenv(taskVariable)
	if text == "" {
		t.Skip("nobody has asked")
	}
	var k task
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		t.Fatal(err)
	}
	c := &campaign{soft: software(t), end: time.Now().Add(k.For), plain: k.Plain, rehearsal: k.Rehearse}
	if c.hard = c.soft; k.Rehearse == nil {
		c.hard = gputest.Driver(t)
	}
	g, err := ferry.OpenDriver(c.hard, 0) // else the context would be made anew for each module
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c.compare(k.programs(), k.Skip)
}

// start runs tasks, each in a process, and is what all of them found.
func start(t *testing.T, all []task) found {
	sum := found{Outputs: map[uint64]string{}}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, k := range all {
		wait.Go(func() {
			f, err := k.start()
			mu.Lock()
			defer mu.Unlock()
			sum.add(f)
			if err != nil {
				t.Errorf("programs %v: %v", k.Spans, err)
			}
		})
	}
	wait.Wait()
	return sum
}

// TestStart: a program that the process dies of costs no other one's result.
func TestStart(t *testing.T) {
	k := task{For: time.Minute, Rehearse: &rehearsal{Dies: []uint64{20}, Wrong: []uint64{7, 33, 105}}}
	first, second := k, k
	first.Spans, second.Spans = []span{{1, 40}, {101, 10}}, []span{{201, 3}}
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
	dead := 0
	for _, f := range all.Looked {
		dead += len(strings.Split(f.Kind, "the driver dies")) - 1
	}
	if len(all.Looked) != 4 || dead != 1 {
		t.Errorf("looked at %v, %d dead", all.Looked, dead)
	}
}

// start does a task. Where a process dies of a module its programs are run one by
// one, and another process goes on after it.
func (k task) start() (found, error) {
	sum := found{Outputs: map[uint64]string{}}
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

// alone runs a program in a process of its own; one that dies of it is a finding.
func (k task) alone(p *Program, sum *found) error {
	k.Spans, k.Skip, k.For = []span{{p.Seed, 1}}, 0, time.Minute
	begun, output, err := k.process(sum)
	if err == nil || len(begun) == 0 {
		return err
	}
	f := finding{Seed: p.Seed, Kind: "the driver dies", Text: fmt.Sprintf("seed %d: %v\n%.2000s\n%s", p.Seed, err, output, p.Text("k"))}
	var plain found
	k.Plain = true
	_, _, err = k.process(&plain)
	f.Plain = err == nil && len(plain.Wrong) == 0
	sum.add(found{Wrong: []uint64{p.Seed}, Looked: []finding{f}})
	return nil
}

// process does a task in a process, adds what it finds to sum and gives the modules
// that were begun and not done when it ended.
func (k task) process(sum *found) (begun []int, output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*max(k.For, 0)+time.Minute)
	defer cancel()
	text, err := json.Marshal(k)
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestTask$", "-test.v")
	cmd.Env = append(os.Environ(), taskVariable+"="+string(text), "CUDA_CACHE_DISABLE=1") // nothing is compiled twice
	out, err := cmd.CombinedOutput()
	begun, output, wrong := answers(string(out), sum)
	return begun, output, cmp.Or(wrong, err)
}

// answers reads what a process has printed.
func answers(out string, sum *found) (begun []int, rest string, err error) {
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
		var f found
		if err := json.Unmarshal([]byte("{"+text), &f); err != nil {
			return nil, out, err
		}
		sum.add(f)
		begun = slices.DeleteFunc(begun, func(i int) bool { return i == at })
	}
	return begun, rest, nil
}

func (f *found) add(g found) {
	if f.Outputs == nil {
		f.Outputs = map[uint64]string{}
	}
	maps.Copy(f.Outputs, g.Outputs)
	f.Wrong = append(f.Wrong, g.Wrong...)
	f.Looked = append(f.Looked, g.Looked...)
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

// compare runs programs on both drivers, a few modules at once.
func (c *campaign) compare(all []*Program, skip int) {
	work := make(chan int)
	var wait sync.WaitGroup
	for range min(2, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for at := range work {
				f := found{Outputs: map[uint64]string{}}
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

// print writes a line that [answers] reads.
func (c *campaign) print(at int, text string) {
	c.printing.Lock()
	defer c.printing.Unlock()
	fmt.Printf("\n%s %d %s\n", taskVariable, at, text)
}

// module runs a module's programs; where it does not compile, each by itself.
func (c *campaign) module(some []*Program, f *found) {
	want, err := c.hardware(some)
	who := "hardware"
	var got [][]byte
	if err == nil {
		who = "the software GPU"
		got, err = run(c.soft, some)
	}
	if err != nil {
		if len(some) == 1 {
			text := err.Error()
			f.Wrong = append(f.Wrong, some[0].Seed)
			f.Looked = append(f.Looked, finding{Seed: some[0].Seed, Kind: who + " refuses", Text: fmt.Sprintf("seed %d: %.600s\n%s", some[0].Seed, text, some[0].Text("k"))})
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

// hardware runs a module's programs there.
func (c *campaign) hardware(some []*Program) ([][]byte, error) {
	if c.plain {
		out, err := runPlain(c.hard, some[0])
		return [][]byte{out}, err
	}
	out, err := run(c.hard, some)
	for i, p := range some {
		switch r := c.rehearsal; {
		case r == nil || err != nil:
		case slices.Contains(r.Dies, p.Seed):
			os.Exit(3)
		case slices.Contains(r.Wrong, p.Seed):
			out[i][0]++
		}
	}
	return out, err
}

// registerNumber is what programs that fail alike differ in.
var registerNumber = regexp.MustCompile(`%[a-z]+\d|-?\b\d\w*`)

// disagree makes a program small and looks at it.
func (c *campaign) disagree(p *Program, to *found) {
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
	f := finding{Seed: p.Seed, Kind: registerNumber.ReplaceAllString(text, "_")}
	example, plain := c.example(small)
	f.Text, f.Plain = fmt.Sprintf("seed %d:\n%s%s", p.Seed, text, example), plain
	to.Looked = append(to.Looked, f)
}

// body is a program's statements alone.
func body(p *Program) string {
	var s strings.Builder
	(&writer{s: &s}).nodes(p.body, 0)
	return s.String()
}

// example is a few threads that differ: what they had, and what became of it. It is
// plain if hardware does what the software GPU does once nothing is optimised.
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
			fmt.Fprintf(&s, "thread %d had %s\n\tsoftware|hardware: %s\n", i, Registers(of(in)), d)
		}
	}
	unoptimised, err := runPlain(c.hard, p)
	if err != nil {
		fmt.Fprintf(&s, "without optimisation: %v\n", err)
	}
	return s.String(), err == nil && string(unoptimised) == string(got[0])
}

// runPlain is what a program does on hardware as ptxas compiles it without any
// optimisation.
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
