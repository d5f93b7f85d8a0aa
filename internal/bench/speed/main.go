// Command speed measures Ferry beside its peers on one machine, all in turns, and
// prints a table:
//
//	go run ./internal/bench/speed [--device D] [--only PARTS] [--peers DIR] [--rounds N] [--json FILE]
//
// Peers are built by nvcc from the sources in DIR, internal/bench/peer if not told
// otherwise, or are there as link_c, pin_c, ... A peer that cannot be had is told
// of, and the rest is measured. Standard output is the table; progress and warnings
// go to standard error. The exit status is 0 when all was measured, 1 after an
// error, 2 when the command line was wrong, 3 when peers or the GPU are missing. A
// goal that is not met is a result, no error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bench"
)

// The exit statuses.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitDegraded = 3
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are what the command line says.
type settings struct {
	device, peers, json string
	only                []string
	rounds              int
}

// run is the whole program. Its result is the exit status.
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
	f.StringVar(&o.device, "device", "", "which `device`; a GPU if there is one")
	f.StringVar(&o.peers, "peers", "internal/bench/peer", "`folder` of the peers' sources, or of peers that are built")
	f.StringVar(&o.json, "json", "", "`file` for the results as JSON, schema "+bench.SpeedSchema)
	only := f.String("only", "", "`parts` or numbers of targets, with commas between them: "+strings.Join(bench.Parts(), ","))
	f.IntVar(&o.rounds, "rounds", 9, "samples of each `number`")
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
		return nil, fmt.Errorf("--rounds %d: there must be one at least", o.rounds)
	}
	return o, nil
}

// measure measures and writes. degraded says that something is missing.
func measure(o *settings, stdout, stderr io.Writer) (degraded bool, err error) {
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
	var kept error
	report, err := bench.Suite(gpus, &bench.SuiteOptions{Only: o.only, Rounds: o.rounds, Peers: peers,
		Progress: func(part string, soFar *bench.SpeedReport) {
			if o.json != "" && kept == nil {
				kept = soFar.Write(o.json) // a run that is cut off leaves what it has
			}
			fmt.Fprintln(stderr, "measuring:", part)
		}})
	if err = errors.Join(err, kept); report == nil {
		return false, err
	}
	_, failed := io.WriteString(stdout, report.Text())
	if err = errors.Join(err, failed); o.json != "" {
		err = errors.Join(err, report.Write(o.json))
	}
	return degraded, err
}

// findPeers makes ready the peers of a GPU; a virtual clock is not compared with
// programs that run.
func findPeers(g *ferry.GPU, o *settings, stderr io.Writer) (peers *bench.Peers, degraded bool, err error) {
	if why := g.Fallback(); why != nil {
		fmt.Fprintln(stderr, "missing: a GPU:", why)
	}
	if g.Emulated() {
		fmt.Fprintln(stderr, "missing: peers, which are measured beside a GPU only: these are predictions")
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
