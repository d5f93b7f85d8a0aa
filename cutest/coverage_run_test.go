package cutest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// columns are the recorded runs in docs/generated/coverage.md.
var columns = []struct{ title, file string }{
	{"software", "cutest-softgpu.json"},
	{"H200", "cutest-h200.json"},
	{"2 x H200", "cutest-h200x2.json"},
	{"H100", "cutest-h100.json"},
	{"2 x H100", "cutest-h100x2.json"},
}

// run is a document of results that package cutest wrote.
type run struct {
	title string
	file  string
	cases map[string]outcome

	Schema        string    `json:"schema"`
	Driver        string    `json:"driver"`
	DriverVersion int       `json:"driver_version"`
	Release       string    `json:"driver_release"`
	Device        string    `json:"device"`
	Devices       int       `json:"devices"`
	Emulated      bool      `json:"emulated"`
	Go            string    `json:"go"`
	Commit        string    `json:"commit"`
	Date          string    `json:"date"`
	Outcomes      []outcome `json:"cases"`
}

type outcome struct {
	ID     string `json:"id"`
	Result string `json:"result"`
	Reason string `json:"reason"`
}

// local finds paths of the machine that a run was made on.
var local = regexp.MustCompile(`/(home|root|tmp|Users|mnt|var|opt)/[\w.]`)

func readRun(path string) (*run, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if found := local.Find(data); found != nil {
		return nil, fmt.Errorf("%s names a path of one machine: %s", path, found)
	}
	r := &run{file: filepath.Base(path), cases: map[string]outcome{}}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Schema != "ferry.cutest/1" || len(r.Outcomes) == 0 {
		return nil, fmt.Errorf("%s: schema %q with %d cases, want ferry.cutest/1 with at least one", path, r.Schema, len(r.Outcomes))
	}
	for _, o := range r.Outcomes {
		r.cases[o.ID] = o
	}
	return r, nil
}

// about describes the machine and the versions of a run.
func (r *run) about() string {
	device := r.Device
	if r.Devices > 1 {
		device = fmt.Sprintf("%d x %s", r.Devices, device)
	}
	if r.Emulated {
		device += ", emulated"
	}
	parts := []string{device, fmt.Sprintf("CUDA %d.%d", r.DriverVersion/1000, r.DriverVersion%1000/10)}
	for _, p := range [][2]string{{"driver ", r.Release}, {"", r.Go}, {"commit ", short(r.Commit)}, {"", r.Date}} {
		if p[1] != "" {
			parts = append(parts, p[0]+p[1])
		}
	}
	return strings.Join(parts, ", ")
}

func short(commit string) string {
	if len(commit) > 12 {
		changed := strings.HasSuffix(commit, "+")
		commit = commit[:12]
		if changed {
			commit += "+"
		}
	}
	return commit
}
