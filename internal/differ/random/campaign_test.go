package random

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
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
	maxShrunk = 8
)

// task is what one process compares: a driver compiles for one thread at a time.
type task struct {
	From  uint64        `json:"from"`
	Count int           `json:"count"`
	For   time.Duration `json:"for"` // no module is begun after
}

// found is what came of a task.
type found struct {
	Outputs map[uint64]string `json:"outputs"` // by seed, of hardware
	Wrong   int               `json:"wrong"`
	Kinds   map[string]int    `json:"kinds"` // programs that go wrong alike
	First   map[string]string `json:"first"` // one of each
}

// taskVariable has the task of a process that TestHardware has started.
const taskVariable = "FERRY_RANDOM_TASK"

// TestTask does one task and prints what it found.
func TestTask(t *testing.T) {
	text := os.Getenv(taskVariable)
	if text == "" {
		t.Skip("nobody has asked")
	}
	var k task
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		t.Fatal(err)
	}
	c := &campaign{hard: gputest.Driver(t), soft: software(t), end: time.Now().Add(k.For),
		found: found{Outputs: map[uint64]string{}, Kinds: map[string]int{}, First: map[string]string{}}}
	g, err := ferry.OpenDriver(c.hard, 0) // else the context would be made anew for each module
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c.compare(programs(k.From, k.Count))
	b, err := json.Marshal(c.found)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s%s\n", taskVariable, b)
}

// start runs tasks, each in a process, and is what all of them found.
func start(t *testing.T, all []task) found {
	sum := found{Outputs: map[uint64]string{}, Kinds: map[string]int{}, First: map[string]string{}}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, k := range all {
		wait.Go(func() {
			f, err := k.start()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("programs from %d: %v", k.From, err)
				return
			}
			sum.add(f)
		})
	}
	wait.Wait()
	return sum
}

func (k task) start() (*found, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*k.For+time.Minute)
	defer cancel()
	text, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestTask$", "-test.v")
	cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	_, answer, ok := strings.Cut(string(out), taskVariable+"{")
	answer, _, _ = strings.Cut("{"+answer, "\n")
	f := &found{}
	if !ok {
		return nil, fmt.Errorf("no answer in %s", out)
	}
	return f, json.Unmarshal([]byte(answer), f)
}

func (f *found) add(g *found) {
	f.Wrong += g.Wrong
	for seed, output := range g.Outputs {
		f.Outputs[seed] = output
	}
	for kind, n := range g.Kinds {
		if f.Kinds[kind] == 0 {
			f.First[kind] = g.First[kind]
		}
		f.Kinds[kind] += n
	}
}

// campaign compares two drivers.
type campaign struct {
	hard, soft cu.Driver
	end        time.Time
	mu         sync.Mutex
	shrunk     int
	found
}

// compare runs programs on both drivers, a few modules at once.
func (c *campaign) compare(all []*Program) {
	work := make(chan []*Program)
	var wait sync.WaitGroup
	for range min(2, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for some := range work {
				c.module(some)
			}
		})
	}
	for len(all) > 0 && time.Now().Before(c.end) {
		n := min(perModule, len(all))
		work <- all[:n]
		all = all[n:]
	}
	close(work)
	wait.Wait()
}

// module runs a module's programs; where it does not compile, each by itself.
func (c *campaign) module(some []*Program) {
	want, err := run(c.hard, some)
	who := "hardware"
	var got [][]byte
	if err == nil {
		who = "the software GPU"
		got, err = run(c.soft, some)
	}
	if err != nil {
		if len(some) == 1 {
			c.refused(some[0], who, err)
			return
		}
		for _, p := range some {
			c.module([]*Program{p})
		}
		return
	}
	for i, p := range some {
		c.mu.Lock()
		c.Outputs[p.Seed] = differ.Sum(want[i])
		c.mu.Unlock()
		if string(got[i]) != string(want[i]) {
			c.disagree(p)
		}
	}
}

// refused counts a program that a driver does not take.
func (c *campaign) refused(p *Program, who string, err error) {
	text := err.Error()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Wrong++
	if c.Kinds[who+" refuses"]++; c.Kinds[who+" refuses"] == 1 {
		c.First[who+" refuses"] = fmt.Sprintf("seed %d: %s\n%s", p.Seed, text[:min(len(text), 600)], p.Text("k"))
	}
}

// registerNumber is what programs that fail alike differ in.
var registerNumber = regexp.MustCompile(`%[a-z]+\d|-?\b\d\w*`)

// disagree makes a program small and keeps it with those like it.
func (c *campaign) disagree(p *Program) {
	c.mu.Lock()
	c.Wrong++
	c.shrunk++
	enough := c.shrunk > maxShrunk
	c.mu.Unlock()
	if enough {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := registerNumber.ReplaceAllString(text, "_")
	if c.Kinds[kind]++; c.Kinds[kind] == 1 {
		c.First[kind] = fmt.Sprintf("seed %d:\n%s%s", p.Seed, text, c.example(small))
	}
}

// body is a program's statements alone.
func body(p *Program) string {
	var s strings.Builder
	(&writer{s: &s}).nodes(p.body, 0)
	return s.String()
}

// example is a few threads that differ: what they had, and what became of it.
func (c *campaign) example(p *Program) string {
	want, err := run(c.hard, []*Program{p})
	if err != nil {
		return err.Error()
	}
	got, err := run(c.soft, []*Program{p})
	if err != nil {
		return err.Error()
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
	return s.String()
}
