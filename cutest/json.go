package cutest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// jsonVariable names the file that results go to.
const jsonVariable = "FERRY_CUTEST_JSON"

// document is what jsonVariable asks for.
type document struct {
	Schema        string   `json:"schema"` // "ferry.cutest/1"
	Driver        string   `json:"driver"`
	DriverVersion int32    `json:"driver_version"`
	Release       string   `json:"driver_release,omitempty"` // of the kernel's part, such as 580.159.04
	Device        string   `json:"device"`
	Devices       int      `json:"devices"`
	Emulated      bool     `json:"emulated"`
	Go            string   `json:"go"`
	Commit        string   `json:"commit,omitempty"`
	Date          string   `json:"date"`
	Test          string   `json:"test"`
	Cases         []result `json:"cases"`
}

// commit is the version of the code: FERRY_COMMIT, or what the build was told.
func commit() string {
	if c := os.Getenv("FERRY_COMMIT"); c != "" {
		return c
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var revision, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	return revision + changed
}

// release is the version of NVIDIA's kernel module, "" where there is none.
func release() string {
	text, _ := os.ReadFile("/proc/driver/nvidia/version")
	for word := range strings.FieldsSeq(string(text)) {
		if strings.Count(word, ".") >= 1 && word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return ""
}

// documents counts those written by this process: the second gets ".2" in its name.
var documents atomic.Int32

func (s *suite) writeJSON(t testing.TB) {
	path := os.Getenv(jsonVariable)
	if path == "" {
		return
	}
	version, _ := s.d.DriverGetVersion()
	name, _ := s.d.DeviceGetName(s.devices[0])
	doc := document{
		Schema: "ferry.cutest/1", Driver: driverName(s.d), DriverVersion: version, Device: name,
		Devices: len(s.devices), Emulated: cu.AsEmulated(s.d) != nil, Test: t.Name(), Cases: s.results,
		Go: runtime.Version(), Commit: commit(), Date: time.Now().UTC().Format(time.DateOnly),
	}
	if !doc.Emulated {
		doc.Release = release()
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
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		t.Errorf("write the results: %v", err)
	}
}

// driverName is the package of the driver below all wrappers.
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
