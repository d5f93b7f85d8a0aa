// Command image measures what a container image of a service must hold: the program and the
// shared libraries that the system loads for it.
//
//	go run ./internal/measure/bench/image [--program PACKAGE] [--wheels FILE] [--json FILE]
//
// It builds the program with CGO_ENABLED=0, finds its libraries as the dynamic linker does, and
// packs all of them as a layer of an image. The container runtime brings the libraries of
// NVIDIA's driver from the host, so they are not counted. The libraries that libcuda.so.1 needs
// are: those that it names, or those of --driver-needs on a machine without it. As root the
// command then runs the program with these files alone, on the software GPU, and sends it a
// request.
//
// --wheels is a table of the files that pip downloads for the service that is replaced, and their
// sizes; the sum stands beside. It runs on Linux.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ferrygpu/ferry/internal/origin"
)

const schema = "ferry-image/1"

// The defaults of the command line.
const (
	programPackage = "./internal/measure/bench/image/service"
	wheelsFile     = "docs/results/torch-wheels.tsv"
	driverNeeds    = "libm.so.6,librt.so.1"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the settings of the command line.
type settings struct{ program, wheels, driverNeeds, json string }

// result is what was measured. Sizes are in bytes.
type result struct {
	Schema      string   `json:"schema"`
	Machine     string   `json:"machine"` // system, architecture and C library
	Go          string   `json:"go"`
	Commit      string   `json:"commit"`
	Program     int64    `json:"program"`
	Needed      []string `json:"needed"`       // by the program itself
	DriverNeeds []string `json:"driver_needs"` // by libcuda.so.1
	Driver      bool     `json:"driver"`       // whether the machine has libcuda.so.1, and DriverNeeds is its
	Files       []file   `json:"files"`
	Sum         int64    `json:"sum"`      // of the files
	Tar         int64    `json:"tar"`      // the layer
	Gzip        int64    `json:"tar_gzip"` // the layer as registries keep it
	Ran         string   `json:"ran"`      // what the program answered with these files alone
	Wheels      int64    `json:"wheels"`   // the sum of the table
	WheelFiles  int      `json:"wheel_files"`
}

// run runs the whole program and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	var o settings
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.program, "program", programPackage, "the `package` of the service")
	f.StringVar(&o.wheels, "wheels", wheelsFile, "a `file` with the names and sizes of wheels")
	f.StringVar(&o.driverNeeds, "driver-needs", driverNeeds, "`libraries` that libcuda.so.1 needs, where it is not on this machine")
	f.StringVar(&o.json, "json", "", "a `file` for the result as JSON")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil || f.NArg() > 0:
		fmt.Fprintln(stderr, "image: wrong command line:", args)
		return 2
	}
	if err := measure(&o, stdout); err != nil {
		fmt.Fprintln(stderr, "image:", err)
		return 1
	}
	return 0
}

// measure builds the program, measures its image and writes the result.
func measure(o *settings, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "ferry-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &result{Schema: schema, Machine: machine(), Go: runtime.Version(), Commit: origin.Commit()}
	program := filepath.Join(dir, "service")
	if err := build(o.program, program); err != nil {
		return err
	}
	if err := r.measureImage(program, o.driverNeeds); err != nil {
		return err
	}
	if r.Ran, err = tryImage(filepath.Join(dir, "root"), r.Files); err != nil {
		return err
	}
	if r.WheelFiles, r.Wheels, err = sumWheels(o.wheels); err != nil {
		return err
	}
	r.print(stdout)
	if o.json == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(data, '\n'), 0o644)
}

// build builds a package without cgo and without symbols.
func build(pkg, program string) error {
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// measureImage finds the files of the image of a program, and their sizes.
func (r *result) measureImage(program, assumed string) error {
	var err error
	if r.Needed, err = needs(program); err != nil {
		return err
	}
	r.DriverNeeds = strings.Split(assumed, ",")
	if driver, found := find("libcuda.so.1"); found {
		if r.DriverNeeds, err = needs(driver); err != nil {
			return err
		}
		r.Driver = true
	}
	libraries, err := closure(program, r.DriverNeeds)
	if err != nil {
		return err
	}
	r.Files = append(r.Files, file{From: program, Path: "/service"})
	for _, path := range libraries {
		r.Files = append(r.Files, file{From: path, Path: path})
	}
	r.Tar, r.Gzip, err = pack(r.Files)
	for _, f := range r.Files {
		r.Sum += f.Bytes
	}
	r.Program = r.Files[0].Bytes
	return err
}

func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %s\n", r.Machine, r.Go)
	for _, f := range r.Files {
		fmt.Fprintf(w, "%12d  %s\n", f.Bytes, f.Path)
	}
	fmt.Fprintf(w, "%12d  all files\n%12d  as tar\n%12d  as tar and gzip\n", r.Sum, r.Tar, r.Gzip)
	fmt.Fprintf(w, "with these files alone: %s\n", r.Ran)
	fmt.Fprintf(w, "%12d  %d wheels\n", r.Wheels, r.WheelFiles)
}
