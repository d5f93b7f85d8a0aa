// Command load compares loading of checkpoints with peers in one run: files as a model of 8 billion
// parameters has them, and as one with very many small tensors, to one GPU and to two.
//
//	load --probe
//	load --dir /mnt/tmpfs --disk /var/tmp --peers peers --json out.json
//
// It makes the files, with new bytes each time. The folder of --dir should be a tmpfs of 40 GiB, so
// that the files are in memory. Each entrant takes a sample in each round, in a random order, after a
// round that compares every byte and does not count. Ferry loads in a new process each time, so its
// time has the page-locking of its ring. Peers are peer/load.cu, as a program load_c in the folder of
// --peers, and peer/load.py. The rows of two GPUs need two.
//
// The report has the commit: FERRY_COMMIT, else what the build recorded. "go run" and builds outside of a
// repository record none.
//
// The exit status is 0 if something was measured, 1 after an error, 2 if the command line was wrong.
// A goal that is not met is a result, not an error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/cufile"
	"github.com/ferrygpu/ferry/internal/origin"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	device, dir, disk, peers string
	json, samples            string
	only                     []string
	model, onDisk            sizes
	small, rounds            int
	limit                    time.Duration
	serve, probe, keep       bool
}

// run runs the whole program and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "load:", err)
		return 2
	case o.probe:
		err = probe(stdout)
	case o.serve:
		err = serve(o.device, stdin, stdout)
	default:
		err = compare(o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "load:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	o := new(settings)
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.device, "device", "cuda", "the `device`")
	f.StringVar(&o.dir, "dir", "", "the `folder` in memory for the files")
	f.StringVar(&o.disk, "disk", "", "the `folder` on a disk for a file; none without it")
	f.StringVar(&o.peers, "peers", "", "the `folder` with load_c and load.py")
	f.StringVar(&o.json, "json", "", "a `file` for the report")
	f.StringVar(&o.samples, "samples", "", "a `file` for all samples, a line of JSON each, as they come")
	only := f.String("only", "", "the `rows` to measure, separated by commas")
	f.IntVar(&o.model.layers, "layers", 32, "the `number` of layers of the model")
	f.IntVar(&o.model.width, "width", 4096, "the `width` of the model")
	f.IntVar(&o.onDisk.layers, "disk-layers", 8, "the `number` of layers of the model on the disk")
	f.IntVar(&o.small, "small", 100000, "the `number` of tensors of 4 KiB")
	f.IntVar(&o.rounds, "rounds", 5, "the `number` of samples of each entrant")
	f.DurationVar(&o.limit, "limit", 7*time.Minute, "no round begins after this time")
	f.BoolVar(&o.keep, "keep", false, "leave the files where they are")
	f.BoolVar(&o.probe, "probe", false, "say what cuFile, NVIDIA's direct path from disks, can do here, and end")
	f.BoolVar(&o.serve, "serve", false, "answer requests on standard input: this program uses it itself")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.onDisk.width = o.model.width
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	return o, o.check(f.NArg())
}

// check returns an error for settings that cannot be measured.
func (o *settings) check(words int) error {
	switch {
	case words > 0:
		return errors.New("want flags only")
	case !o.serve && !o.probe && o.dir == "":
		return errors.New("--dir is missing: the folder for the files, a tmpfs of 40 GiB")
	case min(o.model.layers, o.onDisk.layers, o.rounds, o.small) < 1 || o.model.width < 128 || o.model.width%128 != 0:
		return errors.New("want at least one layer, round and tensor, and a width that is a multiple of 128")
	}
	for _, name := range o.only {
		if !slices.ContainsFunc(rows(), func(r row) bool { return r.name == name }) {
			return fmt.Errorf("--only %s: there is no such row", name)
		}
	}
	return nil
}

// probe prints what cuFile says.
func probe(stdout io.Writer) error {
	facts, err := cufile.Probe(os.DirFS("/"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%v\n%+v\n", facts, facts.Driver)
	return err
}

// compare makes the files and measures all rows.
func compare(o *settings, stdout, stderr io.Writer) (err error) {
	if o.json != "" && origin.Commit() == "" {
		return errors.New("--json: this program does not know the commit that it was built from: set FERRY_COMMIT")
	}
	end := time.Now().Add(o.limit)
	gpus, machine, err := look(o.device)
	if err != nil {
		return err
	}
	made, remove, err := o.makeFiles(stderr)
	defer func() { err = errors.Join(err, remove()) }()
	if err != nil {
		return err
	}
	lines := io.Discard
	if o.samples != "" {
		f, err := os.Create(o.samples)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		lines = f
	}
	programs, err := o.programs(stderr)
	if err != nil {
		return err
	}
	m := &runner{programs: programs, files: made, rounds: o.rounds, end: end, lines: lines, log: stderr}
	defer func() { err = errors.Join(err, m.stop()) }()
	out := &report{Schema: schema, Machine: machine, Commit: origin.Commit()}
	for _, r := range rows() {
		if !o.measures(r, gpus) || r.file(made) == nil {
			continue
		}
		fmt.Fprintf(stderr, "%s: %s, %v left\n", r.name, r.what, time.Until(end).Round(time.Second))
		if err := m.run(r); err != nil {
			return err
		}
		out.Rows = append(out.Rows, m.reportRow(r))
		if err := out.save(o.json); err != nil {
			return err
		}
	}
	_, err = io.WriteString(stdout, out.text())
	return err
}

// save writes the rows so far, in case the run is interrupted.
func (r *report) save(path string) error {
	if path == "" {
		return nil
	}
	return r.write(path)
}

// measures reports whether a row is wanted and possible.
func (o *settings) measures(r row, gpus int) bool {
	return (len(o.only) == 0 || slices.Contains(o.only, r.name)) && (r.gpus == toOne || gpus >= 2)
}

// look returns the number of GPUs and what they are. It closes them again.
func look(device string) (n int, text string, err error) {
	gpus, err := ferry.OpenAll(device)
	if err != nil {
		return 0, "", err
	}
	for _, g := range gpus {
		text += g.String() + "; "
		err = errors.Join(err, g.Close())
	}
	if v := origin.Release(); v != "" {
		text += "driver " + v + "; "
	}
	return len(gpus), text + runtime.Version() + "; " + time.Now().UTC().Format(time.DateOnly), err
}

// makeFiles makes the files. remove removes them.
func (o *settings) makeFiles(log io.Writer) (made *files, remove func() error, err error) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	made = new(files)
	var paths []string
	remove = func() (err error) {
		if o.keep {
			return nil
		}
		for _, p := range paths {
			err = errors.Join(err, os.Remove(p), os.Remove(p+".list"))
		}
		return err
	}
	write := func(dir, name string, m *model, disk bool) *modelFile {
		if err != nil {
			return nil
		}
		began, path := time.Now(), filepath.Join(dir, name)
		paths = append(paths, path)
		var f *modelFile
		f, err = m.write(path, seed, disk)
		fmt.Fprintf(log, "made %s: %d tensors, %.2f GiB, %v\n", path, len(m.tensors), float64(m.bytes)/(1<<30), time.Since(began).Round(time.Millisecond))
		return f
	}
	made.model = write(o.dir, "model.safetensors", llama(o.model, r), false)
	made.small = write(o.dir, "small.safetensors", small(o.small, r), false)
	if o.disk != "" {
		made.disk = write(o.disk, "disk.safetensors", llama(o.onDisk, r), true)
	}
	return made, remove, err
}

// programs returns the programs that are there.
func (o *settings) programs(log io.Writer) (map[string]*program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	own := []string{self, "--serve", "--device", o.device}
	all := map[string]*program{"ferry": {command: own, fresh: true}, "locked": {command: own}}
	if path := filepath.Join(o.peers, "load_c"); o.peers != "" {
		if _, err := os.Stat(path); err == nil {
			all["c"] = &program{command: []string{path}}
		} else {
			fmt.Fprintln(log, "missing:", err)
		}
		if err := exec.Command("python3", "-c", "import safetensors.torch").Run(); err == nil {
			all["python"] = &program{command: []string{"python3", filepath.Join(o.peers, "load.py")}}
		} else {
			fmt.Fprintln(log, "missing: python3 with torch and safetensors:", err)
		}
	}
	return all, nil
}
