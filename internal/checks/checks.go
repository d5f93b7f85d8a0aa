// Package checks reads which checks a program asks for, and writes what they have found to
// the file of "ferry check".
package checks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/internal/outfile"
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

// Ends of the names of files beside the file for findings. The first has a byte for each row
// that a process could not write. The second is made by "ferry check". A process that cannot
// even write that byte removes it, because that needs no room.
const (
	LostSuffix  = ".lost"
	WholeSuffix = ".whole"
)

// MostRow is the most bytes of a row.
const MostRow = 1 << 20

// Append adds a row to the file that the environment names, if any, and reports whether it is
// there. Each row is one write to the end of the file, so that several processes can share it.
// If the row cannot be written, a file beside it says so.
func Append(r Row) bool {
	path := secureenv.Get(ReportVariable)
	if path == "" {
		return false
	}
	line, err := r.line()
	if err != nil {
		return false
	}
	writing.Lock()
	defer writing.Unlock()
	if outfile.Append(path, line) == nil {
		return true
	}
	_ = markLost(path)
	return false
}

// line returns the line of a row. One that is too long loses first its details, then the end of
// its text.
func (r Row) line() ([]byte, error) {
	r.Process = os.Getpid()
	line, err := json.Marshal(r)
	if len(line) >= MostRow {
		r.Finding = nil
		line, err = json.Marshal(r)
	}
	if len(line) >= MostRow {
		r.Text = strings.ToValidUTF8(r.Text[:min(len(r.Text), MostRow/8)], "") + fmt.Sprintf(" ... (%d bytes)", len(r.Text))
		line, err = json.Marshal(r)
	}
	return append(line, '\n'), err
}

// markLost notes that a row could not be written.
func markLost(path string) error {
	err := outfile.Append(path+LostSuffix, []byte{'x'})
	if err == nil {
		return nil
	}
	if os.Remove(path+WholeSuffix) == nil {
		return nil
	}
	if _, gone := os.Stat(path + WholeSuffix); errors.Is(gone, fs.ErrNotExist) && exists(filepath.Dir(path)) {
		return nil // another row was lost before
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Ready returns an error if the environment names a file for findings that this process can
// neither write nor mark as incomplete: "ferry check" would not know what is found here.
func Ready() error {
	path := secureenv.Get(ReportVariable)
	if path == "" {
		return nil
	}
	writing.Lock()
	defer writing.Unlock()
	err := outfile.Append(path, nil)
	if err == nil || markLost(path) == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: what is found here would be lost", ReportVariable, err)
}
