package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// results are what the tests of a module say. Only tests are counted, and no parts of tests.
type results struct {
	passed, skipped int
	failed          []failure
	built           string // what the compiler says
}

// failure is a test that failed, and why.
type failure struct{ name, why string }

func (r *results) none() bool { return r.passed+r.skipped+len(r.failed) == 0 }

// read reads the lines of go test -json.
func read(from io.Reader) (*results, error) {
	r := new(results)
	said := map[string]*strings.Builder{}
	for d := json.NewDecoder(from); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return r, nil
		} else if err != nil {
			return r, fmt.Errorf("go test -json: %w", err)
		}
		name, _, part := strings.Cut(e.Test, "/")
		switch key := e.Package + " " + name; {
		case e.Action == "build-output":
			r.built += e.Output
		case name == "":
		case e.Action == "output":
			if said[key] == nil {
				said[key] = new(strings.Builder)
			}
			said[key].WriteString(e.Output)
		case !part:
			r.count(e, said[key])
			delete(said, key)
		}
	}
}

// count counts the end of a test.
func (r *results) count(e event, said *strings.Builder) {
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
	case "fail":
		text := ""
		if said != nil {
			text = said.String()
		}
		r.failed = append(r.failed, failure{e.Test, why(text)})
	}
}

// Beginnings of the reasons that are counted apart.
const (
	refusedBegin     = "refused: "
	machineCodeBegin = "needs machine code"
)

var refused = regexp.MustCompile(`ferry: (cu\w+): CUDA_ERROR_NOT_SUPPORTED`)

// why says why a test failed: what the library refused in it, or else the first thing that the test
// says.
func why(output string) string {
	var names []string
	for _, m := range refused.FindAllStringSubmatch(output, -1) {
		if name := "`" + m[1] + "`"; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names != nil {
		return refusedBegin + strings.Join(names, ", ")
	}
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			return line
		}
	}
	return "it says nothing"
}

const tableHead = "| suite | passed | failed | refused | needs machine code | skipped | why they failed |\n| --- | --- | --- | --- | --- | --- | --- |\n"

// row is the row of a module in the table.
func (r *results) row(module string) string {
	var all []string
	var refused, machine int
	for _, f := range r.failed {
		switch {
		case strings.HasPrefix(f.why, refusedBegin):
			refused++
		case f.why == machineCodeBegin:
			machine++
			continue
		}
		all = append(all, fmt.Sprintf("%s: %s", f.name, strings.ReplaceAll(f.why, "|", "\\|")))
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %s |\n", module, r.passed, len(r.failed)-refused-machine, refused, machine, r.skipped, strings.Join(all, "; "))
}
