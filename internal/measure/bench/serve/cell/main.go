// Command cell measures cells of [serve] in one process. It prints a line of JSON for each:
//
//	go run ./internal/measure/bench/serve/cell [--device D] [--time 5s] CELL...
//
// A CELL is KIND,BYTES,GOROUTINES, such as pinned,4096,64. KIND is pinned, pageable or pool.
// It can be followed by ,gc to collect garbage meanwhile, and by ,context to wait with a
// context that can be cancelled, and by ,save for GPU.SetSaveCPU. The peer in C++ prints the same lines. The
// commit that the linker was told is in each line, else FERRY_COMMIT.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/bench/serve"
)

// commit is the version of the code if the linker was told: -ldflags "-X main.commit=...".
var commit string

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the whole program and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("cell", flag.ContinueOnError)
	f.SetOutput(stderr)
	device := f.String("device", "", "the `device`; by default a GPU if there is one")
	d := f.Duration("time", 5*time.Second, "how long each cell is measured")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if f.NArg() == 0 {
		fmt.Fprintln(stderr, "cell: no cell is named, such as pinned,4096,64")
		return 2
	}
	var cells []serve.Cell
	for _, text := range f.Args() {
		c, err := serve.ParseCell(text)
		if err != nil {
			fmt.Fprintln(stderr, "cell:", err)
			return 2
		}
		cells = append(cells, c)
	}
	if err := measure(*device, cells, *d, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "cell:", err)
		return 1
	}
	return 0
}

// measure measures all cells.
func measure(device string, cells []serve.Cell, d time.Duration, stdout, stderr io.Writer) (err error) {
	g, err := ferry.Open(device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if g.Emulated() {
		fmt.Fprintln(stderr, "cell: the times of a software GPU say nothing about a GPU")
	}
	for _, c := range cells {
		f, err := serve.Run(g, c, d)
		if err != nil {
			return err
		}
		f.Commit, f.Driver = version(), release()
		if err := json.NewEncoder(stdout).Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// version returns the version of the code.
func version() string {
	if commit != "" {
		return commit
	}
	if c := os.Getenv("FERRY_COMMIT"); c != "" {
		return c
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(7, len(s.Value))]
		}
	}
	return ""
}

// release returns the version of NVIDIA's kernel module, "" if there is none.
func release() string {
	text, _ := os.ReadFile("/proc/driver/nvidia/version")
	for _, word := range strings.Fields(string(text)) {
		if strings.Count(word, ".") >= 1 && strings.Trim(word, "0123456789.") == "" {
			return word
		}
	}
	return ""
}
