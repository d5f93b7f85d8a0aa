// Command share compares rounds of sharing a buffer with the same calls from C, in one run: export,
// import, a kernel on one page at each end, close. It prints both medians and their ratio, and the
// descriptors and the free memory of the device after the first round and after the last:
//
//	cc -O2 -shared -fPIC internal/measure/bench/peer/share.c -lcuda -o share_c
//	go run ./internal/measure/bench/share [--device D] [--rounds N] [--peer share_c]
//
// Without --peer there is no comparison. The exit status is 0 if everything was measured and nothing
// was left behind, 1 after an error or if something was, 2 if the command line was wrong.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/bench"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the whole program and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("share", flag.ContinueOnError)
	f.SetOutput(stderr)
	device := f.String("device", "", "the `device`; by default a GPU if there is one")
	rounds := f.Int("rounds", 10000, "the `number` of rounds")
	peer := f.String("peer", "", "the `library` that was built from internal/measure/bench/peer/share.c")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil || f.NArg() > 0 || *rounds < 1:
		fmt.Fprintln(stderr, "share: want flags only, and at least 1 round")
		return 2
	}
	if err := measure(*device, *peer, *rounds, stdout); err != nil {
		fmt.Fprintln(stderr, "share:", err)
		return 1
	}
	return 0
}

// measure makes the rounds and prints the figures.
func measure(device, peer string, rounds int, stdout io.Writer) (err error) {
	g, err := ferry.Open(device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	c, err := bench.Share(g, peer, rounds)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s, %d rounds\n", g, c.Rounds)
	fmt.Fprintf(stdout, "Ferry  median %.2f us\n", c.NS/1e3)
	if peer != "" {
		fmt.Fprintf(stdout, "C      median %.2f us\nratio  %.3f\n", c.InC/1e3, c.Ratio())
	}
	fmt.Fprintf(stdout, "descriptors %d, at the end %d\nfree bytes  %d, at the end %d\n", c.Files, c.FilesAtEnd, c.Free, c.FreeAtEnd)
	if !c.Flat() {
		return errors.New("the rounds have left something behind")
	}
	return nil
}
