package explain

import (
	"bytes"
	"encoding/json"
)

// Schema is the version of the document that [Report.JSON] returns.
const Schema = "ferry.explain/1"

// Source is where the address or the cost of a step comes from.
type Source string

// The sources of steps.
const (
	Observed  Source = "observed"  // measured or read on this machine, or by the recording
	Predicted Source = "predicted" // by the software GPU and the profile of a machine
	Manual    Source = "manual"    // from manuals: nothing here shows it
)

// Step is one place on the way of an access.
type Step struct {
	Path    string   `json:"path"`    // which way, such as "a kernel reads page-locked memory"
	Place   string   `json:"place"`   // such as "GPU MMU"
	Address string   `json:"address"` // there, in hexadecimal; "" for none
	CostNs  *float64 `json:"cost_ns"` // null if it is not known, or part of another step
	Source  Source   `json:"source"`
	Text    string   `json:"text"`
}

// Finding is one reason why transfers of a line of the program were slow.
type Finding struct {
	Cause    string `json:"cause"` // such as "pageable"
	Site     string `json:"site"`  // "main.go:12"; "" if it is not known
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`

	Transfers int    `json:"transfers"`
	Bytes     uint64 `json:"bytes"`
	TimeNs    int64  `json:"time_ns"` // that the transfers took
	LostNs    int64  `json:"lost_ns"` // of it, or beside it
	Source    Source `json:"source"`  // of LostNs
	Evidence  string `json:"evidence"`
	Do        string `json:"do"`
}

// Report is an explanation. Its fields are those of the JSON document.
type Report struct {
	Schema    string    `json:"schema"`
	Subject   string    `json:"subject"` // the topic, the file, or FILE:ADDRESS
	Device    string    `json:"device"`
	Predicted bool      `json:"predicted"` // times are predictions of a software GPU
	About     string    `json:"about"`     // what the subject is, in some sentences
	Steps     []Step    `json:"steps"`
	Findings  []Finding `json:"findings"` // of a recording, the most time lost first
	Notes     []string  `json:"notes"`

	recording bool // findings were looked for
}

func newReport(subject, device string) *Report {
	return &Report{Schema: Schema, Subject: subject, Device: device, Steps: []Step{}, Findings: []Finding{}, Notes: []string{}}
}

// JSON returns the report as one document.
func (r *Report) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(r)
	return b.Bytes(), err
}
