package cutest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/origin"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// jsonVariable is the environment variable that names the file for the results.
const jsonVariable = "FERRY_CUTEST_JSON"

// document is the file with the results.
type document struct {
	Schema        string   `json:"schema"` // "ferry.cutest/1"
	Driver        string   `json:"driver"`
	DriverVersion int32    `json:"driver_version"`
	Release       string   `json:"driver_release,omitempty"` // of the kernel module, such as 580.159.04
	Device        string   `json:"device"`
	Devices       int      `json:"devices"`
	Emulated      bool     `json:"emulated"`
	Go            string   `json:"go"`
	Commit        string   `json:"commit,omitempty"`
	Date          string   `json:"date"`
	Test          string   `json:"test"`
	Cases         []result `json:"cases"`
}

// documents counts the documents of this process. The second has ".2" in its name.
var documents atomic.Int32

func (s *suite) writeJSON(t testing.TB) {
	path := secureenv.Get(jsonVariable)
	if path == "" {
		return
	}
	version, _ := s.d.DriverGetVersion()
	name, _ := s.d.DeviceGetName(s.devices[0])
	doc := document{
		Schema: "ferry.cutest/1", Driver: driverName(s.d), DriverVersion: version, Device: name,
		Devices: len(s.devices), Emulated: cu.AsEmulated(s.d) != nil, Test: t.Name(), Cases: s.results,
		Go: runtime.Version(), Commit: origin.Commit(), Date: time.Now().UTC().Format(time.DateOnly),
	}
	if !doc.Emulated {
		doc.Release = origin.Release()
	}
	data, err := json.MarshalIndent(doc, "", "\t")
	if err != nil {
		t.Errorf("results as JSON: %v", err)
		return
	}
	if n := documents.Add(1); n > 1 {
		ext := filepath.Ext(path)
		path = fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), n, ext)
	}
	if err := outfile.Write(path, append(data, '\n')); err != nil {
		t.Errorf("write the results: %v", err)
	}
}

// driverName returns the package of the driver inside all wrappers.
func driverName(d cu.Driver) string {
	for {
		w, ok := d.(interface{ Unwrap() cu.Driver })
		if !ok {
			break
		}
		d = w.Unwrap()
	}
	name, _, _ := strings.Cut(strings.TrimLeft(fmt.Sprintf("%T", d), "*"), ".")
	return name
}
