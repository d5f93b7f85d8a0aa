// Command speed compares the speed of Ferry and its peers on one machine and prints a
// table. It takes samples of all of them in turns:
//
//	go run ./internal/measure/bench/speed [--device D] [--only PARTS] [--peers DIR] [--rounds N] [--serve-time T] [--json FILE]
//
// The part serve, many goroutines at once, takes a long time: it is only measured if --only
// names it. With --rounds 5 and 5 seconds for each sample it takes 35 minutes.
//
// nvcc builds the peers from the sources in DIR, which is internal/measure/bench/peer by default,
// unless DIR has them as programs link_c, pin_c and so on. If a peer is missing, the
// command reports it and measures the rest. Standard output has the table; progress and
// warnings go to standard error. The exit status is 0 if everything was measured, 1 after
// an error, 2 if the command line was wrong, 3 if peers or the GPU are missing. A goal that
// is not met is a result, not an error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/hint"
	"github.com/ferrygpu/ferry/internal/measure/bench"
)

// The exit statuses.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitDegraded = 3
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the settings of the command line.
type settings struct {
	device, peers, json string
	only                []string
	rounds              int
	serve               time.Duration
}

// run runs the whole program and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "speed:", err)
		return exitUsage
	}
	degraded, err := measure(o, stdout, stderr)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "speed:", err)
		return exitError
	case degraded:
		return exitDegraded
	}
	return exitOK
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	o := new(settings)
	f := flag.NewFlagSet("speed", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "", "the `device`; by default a GPU if there is one")
	f.StringVar(&o.peers, "peers", "internal/measure/bench/peer", "the `folder` with the sources of the peers, or with built peers")
	f.StringVar(&o.json, "json", "", "a `file` for the results as JSON, schema "+bench.SpeedSchema)
	only := f.String("only", "", "`parts` or numbers of targets, separated by commas: "+strings.Join(bench.Parts(), ","))
	f.IntVar(&o.rounds, "rounds", 9, "the `number` of samples of each figure")
	f.DurationVar(&o.serve, "serve-time", 5*time.Second, "how long each sample of the part serve takes")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	_, err := bench.PeersOf(o.only)
	switch {
	case err != nil:
		return nil, err
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q is not expected here", f.Arg(0))
	case o.rounds < 1:
		return nil, fmt.Errorf("--rounds %d: must be at least 1", o.rounds)
	case o.serve <= 0:
		return nil, fmt.Errorf("--serve-time %v: must be positive", o.serve)
	}
	return o, nil
}

// measure runs the suite and writes the results. degraded reports that peers or the GPU are
// missing.
func measure(o *settings, stdout, stderr io.Writer) (degraded bool, err error) {
	hint.Silence(hint.Fallback) // findPeers reports the missing GPU
	gpus, err := ferry.OpenAll(o.device)
	if err != nil {
		return false, err
	}
	for _, g := range gpus {
		defer func() { err = errors.Join(err, g.Close()) }()
	}
	fmt.Fprintln(stderr, "device:", gpus[0])
	peers, degraded, err := findPeers(gpus[0], o, stderr)
	if err != nil {
		return false, err
	}
	if peers != nil {
		defer func() { err = errors.Join(err, peers.Close()) }()
	}
	var saved error
	report, err := bench.Suite(gpus, &bench.SuiteOptions{Only: o.only, Rounds: o.rounds, Peers: peers, ServeTime: o.serve,
		Progress: func(part string, soFar *bench.SpeedReport) {
			if o.json != "" && saved == nil {
				saved = soFar.Write(o.json) // saves the results so far, in case the run is interrupted
			}
			fmt.Fprintln(stderr, "measuring:", part)
		}})
	if err = errors.Join(err, saved); report == nil {
		return false, err
	}
	_, failed := io.WriteString(stdout, report.Text())
	if err = errors.Join(err, failed); o.json != "" {
		err = errors.Join(err, report.Write(o.json))
	}
	return degraded, err
}

// findPeers prepares the peers and reports those that are missing. A software GPU has no
// peers, because its virtual clock cannot be compared with real programs.
func findPeers(g *ferry.GPU, o *settings, stderr io.Writer) (peers *bench.Peers, degraded bool, err error) {
	if why := g.Fallback(); why != nil {
		fmt.Fprintln(stderr, "missing: GPU:", why)
	}
	if g.Emulated() {
		fmt.Fprintln(stderr, "missing: peers, which need a GPU: the times of a software GPU are predictions, "+
			"and those of the part serve are times of this CPU, which say nothing about a GPU")
		return nil, true, nil
	}
	names, err := bench.PeersOf(o.only)
	if err != nil {
		return nil, false, err
	}
	if peers, err = bench.NewPeers(o.peers, names); err != nil {
		return nil, false, err
	}
	for _, line := range peers.Missing() {
		degraded = true
		fmt.Fprintln(stderr, "missing:", line)
	}
	return peers, degraded, nil
}
