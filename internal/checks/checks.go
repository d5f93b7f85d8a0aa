// Package checks reads which checks a program asks for, and writes what they have found to
// the file of "ferry check".
package checks

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// Environment variables: the list of checks, and the file for findings.
const (
	Variable       = "FERRY_CHECK"
	ReportVariable = "FERRY_CHECK_REPORT"
)

// The checks: races inside kernels and between launches on the software GPU, and driver
// calls on memory in flight.
const (
	Races  = "races"
	Memory = "memory"
)

var names = []string{Races, Memory}

// Parse reads a list of checks, such as "races,memory". 1 stands for all checks, 0 and the
// empty list for none.
func Parse(text string) ([]string, error) {
	var list []string
	for name := range strings.SplitSeq(text, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "" || name == "0":
		case name == "1":
			list = slices.Clone(names)
		case !slices.Contains(names, name):
			return nil, fmt.Errorf("check %s is not known, must be 1 or a list of: %s", printable.Value(name), strings.Join(names, ", "))
		case !slices.Contains(list, name):
			list = append(list, name)
		}
	}
	return list, nil
}

// On reports whether the environment asks for a check.
func On(name string) (bool, error) {
	list, err := Parse(os.Getenv(Variable))
	if err != nil {
		return false, fmt.Errorf("%s: %w", Variable, err)
	}
	return slices.Contains(list, name), nil
}

// Row is a line of the file for findings.
type Row struct {
	Process int             `json:"process"`
	Check   string          `json:"check"`
	Watched string          `json:"watched,omitempty"` // what a process watches: such a row has no finding
	GaveUp  *GaveUp         `json:"gave_up,omitempty"` // what a check gave up: such a row has no finding. The largest count of a Source counts
	Source  uint64          `json:"source,omitempty"`  // the driver in the process that gave up
	Note    bool            `json:"note,omitempty"`    // costs: no fault
	Text    string          `json:"text,omitempty"`    // the finding in lines
	Finding json.RawMessage `json:"finding,omitempty"`
	Seed    uint64          `json:"seed,omitempty"`  // the first that shows the finding, of "ferry check --seeds"
	Again   string          `json:"again,omitempty"` // the command that shows it again
}

var writing sync.Mutex

// LostSuffix is the end of the name of a file beside the file for findings. It has a byte for
// each row that a process could not write, as far as there was room.
const LostSuffix = ".lost"

// Append adds a row to the file that the environment names, if any, and reports whether it is
// there. Each row is one write to the end of the file, so that several processes can share it.
// If the row cannot be written, a file beside it says so.
func Append(r Row) bool {
	path := secureenv.Get(ReportVariable)
	if path == "" {
		return false
	}
	r.Process = os.Getpid()
	line, err := json.Marshal(r)
	if err != nil {
		return false
	}
	writing.Lock()
	defer writing.Unlock()
	if appendTo(path, append(line, '\n')) {
		return true
	}
	_ = appendTo(path+LostSuffix, []byte{'x'})
	return false
}

func appendTo(path string, data []byte) bool {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return false
	}
	_, wrong := f.Write(data)
	return f.Close() == nil && wrong == nil
}
