package fit

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/measure/bench"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/internal/printable"
)

// Read returns the median over the machines of each case for fitting. The value of a machine
// is the median over its files. A machine is given by a pattern of file names.
func Read(machines []string, late string) (map[grid.Case]float64, error) {
	all := map[grid.Case][]float64{}
	for _, pattern := range machines {
		one, err := readMachine(pattern)
		if err != nil {
			return nil, err
		}
		for c, ns := range one {
			all[c] = append(all[c], ns)
		}
	}
	known := map[grid.Case]bool{}
	for c := range all {
		known[c] = true
	}
	if late != "" {
		one, err := readMachine(late)
		if err != nil {
			return nil, err
		}
		for c, ns := range one {
			if !known[c] {
				all[c] = append(all[c], ns)
			}
		}
	}
	return medians(all), nil
}

func readMachine(pattern string) (map[grid.Case]float64, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no such files", pattern)
	}
	return readFiles(files, grid.Case.Fits)
}

// readFiles returns the median over the files of each case that want accepts. The files are
// the runs on one machine.
func readFiles(files []string, want func(grid.Case) bool) (map[grid.Case]float64, error) {
	all, err := readRuns(files, want)
	return medians(all), err
}

// readRuns returns the times of each case that want accepts, one for each file that has it.
func readRuns(files []string, want func(grid.Case) bool) (map[grid.Case][]float64, error) {
	all := map[grid.Case][]float64{}
	for _, name := range files {
		one, err := readFile(name)
		if err != nil {
			return nil, err
		}
		if one.Predicted {
			return nil, fmt.Errorf("%s has predictions, not measurements", name)
		}
		for _, x := range one.Points {
			if want(x.Case) && x.Median > 0 {
				all[x.Case] = append(all[x.Case], x.Median)
			}
		}
	}
	return all, nil
}

// readFile reads a document of "bench --json", or of "compare --json" with its steps as
// cases. Its error has the position of what is wrong.
func readFile(name string) (*grid.Result, error) {
	text, err := inputfile.Read(name, inputfile.Document)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(text, []byte(bench.Schema)) {
		return readSteps(name, text)
	}
	r := new(grid.Result)
	if err := document.Decode(name, text, grid.Schema, r); err != nil {
		return nil, err
	}
	printable.Strings(r)
	return r, nil
}

// DeviceOf returns the name of the device on which files were measured. Files of several
// devices are an error.
func DeviceOf(files []string) (string, error) {
	device := ""
	for i, name := range files {
		r, err := readFile(name)
		switch {
		case err != nil:
			return "", err
		case i > 0 && r.Device.Name != device:
			return "", fmt.Errorf("%s is of %q, but %s of %q: a profile is fitted to one machine", files[0], device, name, r.Device.Name)
		}
		device = r.Device.Name
	}
	return device, nil
}

func medians(all map[grid.Case][]float64) map[grid.Case]float64 {
	out := map[grid.Case]float64{}
	for c, times := range all {
		slices.Sort(times)
		n := len(times)
		out[c] = (times[(n-1)/2] + times[n/2]) / 2
	}
	return out
}

// spansOf returns the range of the times of each case.
func spansOf(all map[grid.Case][]float64) map[grid.Case]span {
	out := map[grid.Case]span{}
	for c, times := range all {
		out[c] = span{slices.Min(times), slices.Max(times)}
	}
	return out
}
