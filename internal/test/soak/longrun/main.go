// Command longrun soaks a GPU: 64 goroutines allocate, copy, launch, verify and free for a
// given time, and the process must stay the same. Before and after it compares the speed of
// Ferry with peers in C, in turns, and prints how the ratios have changed. A comparison that
// is thrown away comes first, because the memory of a virtual machine is slow when it is used
// for the first time. At the end it compares page-locking and a pool of this process with those
// of a new process, in turns, so that the state of the machine is the same for both:
//
//	go run ./internal/test/soak/longrun [--device D] [--time T | --rounds N] [--only PARTS] [--peers DIR] [--json FILE]
//
// On a software GPU nothing is compared, because its times are predictions. The exit status
// is 0 if all results were right, nothing grew and no median of ratios fell by more than 5 %; 1
// after an error; 2 if the command line was wrong; 3 if something grew or changed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/bench"
	"github.com/ferrygpu/ferry/internal/origin"
	"github.com/ferrygpu/ferry/internal/test/soak"
)

// The exit statuses.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitChanged = 3
)

// schema is the version of a document.
const schema = "ferry.soak/1"

// most is by how much the median of a group's ratios may fall.
const most = 0.05

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the settings of the command line.
type settings struct {
	device, peers, json string
	serve               string // what this process does for another one
	only                []string
	samples             int
	soak                soak.Options
}

// document is the result of a run.
type document struct {
	Schema  string              `json:"schema"`
	Machine map[string]string   `json:"machine"`
	Soak    *soak.Report        `json:"soak"`
	Grown   string              `json:"grown"` // what grew; "" if nothing did
	Speed   []change            `json:"speed"`
	Groups  []group             `json:"groups"`
	Aged    []bench.SpeedResult `json:"aged"` // this process beside a new one
}

// change is a figure of Ferry, before and after.
type change struct {
	What   string            `json:"what"`
	Before bench.SpeedResult `json:"before"`
	After  bench.SpeedResult `json:"after"`
	By     float64           `json:"by"` // the ratio after, divided by the one before, less 1
}

// run runs the whole program and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "longrun:", err)
		return exitUsage
	}
	if o.serve != "" {
		if err := o.asNewProcess(os.Stdin, stdout); err != nil {
			fmt.Fprintln(stderr, "longrun:", err)
			return exitError
		}
		return exitOK
	}
	d, err := o.measure(stderr)
	if err == nil && o.json != "" {
		err = write(o.json, d)
	}
	if err != nil {
		fmt.Fprintln(stderr, "longrun:", err)
		return exitError
	}
	fmt.Fprintf(stdout, "%d rounds in %.1f s, %d elements verified, %d rounds cancelled\n", d.Soak.Rounds, d.Soak.Seconds, d.Soak.Verified, d.Soak.Cancelled)
	bad := d.Grown != ""
	if bad {
		fmt.Fprintln(stdout, d.Grown)
	}
	for _, x := range d.Groups {
		fmt.Fprintf(stdout, "%-14s %3d ratios to peers changed by %+.1f %% (median; half of them by %+.1f to %+.1f %%)\n", x.Name, x.Ratios, 100*x.By, 100*x.Low, 100*x.High)
		bad = bad || x.By < -most
	}
	for _, x := range d.Aged {
		fmt.Fprintf(stdout, "%s: %.3f of %s\n", x.What, x.Ratio, x.PeerName)
		bad = bad || x.Ratio < 1-most
	}
	if bad {
		return exitChanged
	}
	return exitOK
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	o := new(settings)
	f := flag.NewFlagSet("longrun", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "", "the `device`; by default a GPU if there is one")
	f.StringVar(&o.peers, "peers", "internal/measure/bench/peer", "the `folder` with the sources of the peers, or with built peers")
	f.StringVar(&o.serve, "serve", "", "used by this command for its new process")
	f.StringVar(&o.json, "json", "", "a `file` for the results as JSON, schema "+schema)
	only := f.String("only", "pin,stage,sizes", "`parts` of the comparison, separated by commas; - for none")
	f.IntVar(&o.samples, "samples", 15, "the `number` of samples of each figure")
	f.DurationVar(&o.soak.Time, "time", 5*time.Minute, "how `long` the goroutines run")
	f.IntVar(&o.soak.Rounds, "rounds", 0, "how many `rounds` they run, in place of a time")
	f.IntVar(&o.soak.Goroutines, "goroutines", 64, "how `many` there are")
	f.Uint64Var(&o.soak.Seed, "seed", uint64(time.Now().UnixNano()), "the `seed` of the tasks")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if *only != "-" {
		o.only = strings.Split(*only, ",")
		if _, err := bench.PeersOf(o.only); err != nil {
			return nil, err
		}
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q is not expected here", f.Arg(0))
	case o.samples < 1 || o.soak.Goroutines < 1 || o.soak.Rounds < 0 || o.soak.Time <= 0:
		return nil, errors.New("--samples, --goroutines, --rounds and --time must be positive")
	}
	return o, nil
}

// measure compares, soaks and compares again.
func (o *settings) measure(stderr io.Writer) (d *document, err error) {
	g, err := ferry.Open(o.device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	fmt.Fprintln(stderr, "device:", g)
	var peers *bench.Peers
	if !g.Emulated() && len(o.only) > 0 {
		names, err := bench.PeersOf(o.only)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".py") })
		if peers, err = bench.NewPeers(o.peers, names); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, peers.Close()) }()
		for _, line := range peers.Missing() {
			fmt.Fprintln(stderr, "missing:", line)
		}
	}
	if _, err := o.compare(g, peers, 1, stderr); err != nil {
		return nil, err
	}
	before, err := o.compare(g, peers, o.samples, stderr)
	if err != nil {
		return nil, err
	}
	d = &document{Schema: schema, Machine: machine(g)}
	o.soak.Progress = func(h soak.Health) { fmt.Fprintf(stderr, "%+v\n", h) }
	if d.Soak, err = soak.Run(context.Background(), g, o.soak); err != nil {
		return nil, err
	}
	if grown := d.Soak.Flat(); grown != nil {
		d.Grown = grown.Error()
	}
	after, err := o.compare(g, peers, o.samples, stderr)
	if err != nil {
		return nil, err
	}
	d.Speed = changes(before, after)
	d.Groups = groups(d.Speed)
	if !g.Emulated() {
		d.Aged, err = o.besideNew(g)
	}
	return d, err
}

// besideNew compares this process with a new one.
func (o *settings) besideNew(g *ferry.GPU) (aged []bench.SpeedResult, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	const name = "a new process"
	all, err := bench.SpeedPin(g, 4*compareBytes, o.samples, []bench.Peer{
		{Name: name, Command: []string{program, "-device", o.device, "-serve", "pin"}},
		{Name: bench.CachedPeer + name, Command: []string{program, "-device", o.device, "-serve", "cached"}},
	})
	for _, x := range all {
		if x.PeerName == name && !strings.HasSuffix(x.What, "8 goroutines") && !strings.HasSuffix(x.What, "64 goroutines") { // the peer has one
			aged = append(aged, x)
		}
	}
	return aged, err
}

// asNewProcess answers the requests of besideNew of another process.
func (o *settings) asNewProcess(in io.Reader, out io.Writer) (err error) {
	g, err := ferry.Open(o.device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return bench.ServePin(g, o.serve, in, out)
}

// compareBytes is the size of the largest copies of a comparison, so that many samples take
// a minute.
const compareBytes = 256 << 20

// compare measures Ferry and its peers in turns. Without peers it measures nothing.
func (o *settings) compare(g *ferry.GPU, peers *bench.Peers, samples int, stderr io.Writer) ([]bench.SpeedResult, error) {
	if peers == nil {
		return nil, nil
	}
	report, err := bench.Suite([]*ferry.GPU{g}, &bench.SuiteOptions{Only: o.only, Rounds: samples, Peers: peers, Bytes: compareBytes,
		Progress: func(part string, _ *bench.SpeedReport) { fmt.Fprintln(stderr, "measuring:", part) }})
	if err != nil {
		return nil, err
	}
	return report.Results, nil
}

// changes pairs the results that have a peer in C.
func changes(before, after []bench.SpeedResult) (all []change) {
	for i, b := range before {
		if i < len(after) && after[i].What == b.What && after[i].PeerName == b.PeerName && b.Ratio > 0 {
			all = append(all, change{b.What + " beside " + b.PeerName, b, after[i], after[i].Ratio/b.Ratio - 1})
		}
	}
	return all
}

// group is what is compared as one: a single ratio varies by more than what is looked for.
type group struct {
	Name   string  `json:"name"`
	Ratios int     `json:"ratios"`
	By     float64 `json:"by"`  // median
	Low    float64 `json:"low"` // quartiles
	High   float64 `json:"high"`
}

// groupNames has the names of groups by the first words of their figures.
var groupNames = []struct{ prefix, name string }{
	{"page-lock ", "page-locking"}, {"give back ", "giving back"}, {"buffer of a pool", "pool"},
	{"plain slice ", "staging"}, {"by powers of two", "copies"},
}

// groups returns the median change of each kind of figure.
func groups(all []change) (found []group) {
	for _, n := range groupNames {
		var by []float64
		for _, c := range all {
			if strings.HasPrefix(c.What, n.prefix) {
				by = append(by, c.By)
			}
		}
		if k := len(by); k > 0 {
			slices.Sort(by)
			found = append(found, group{n.name, k, by[k/2], by[k/4], by[k-1-k/4]})
		}
	}
	return found
}

// machine describes where and what was measured.
func machine(g *ferry.GPU) map[string]string {
	m := map[string]string{"device": g.String(), "go": runtime.Version(), "commit": origin.Commit(), "cpus": fmt.Sprint(runtime.NumCPU())}
	if release := origin.Release(); release != "" {
		m["driver"] = release
	}
	return m
}

func write(path string, d *document) error {
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
