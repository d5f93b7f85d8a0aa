package advise

import (
	"encoding/json"
)

// Schema is the schema of the JSON of a report.
const Schema = "ferry.advise/1"

// Report is advice for a job. Times are nanoseconds.
type Report struct {
	Schema       string        `json:"schema"`
	Device       string        `json:"device"`    // that the advice is for
	Profile      string        `json:"profile"`   // whose software GPU has predicted
	Predicted    bool          `json:"predicted"` // always true: predicted_ns are predictions
	Job          jobJSON       `json:"job"`
	Best         Choice        `json:"best"`
	Alternatives []Alternative `json:"alternatives"` // the best first
	Flips        []Flip        `json:"flips"`
	Go           string        `json:"go"`    // code for the best
	Notes        []string      `json:"notes"` // what else to know
	Verified     *Verification `json:"verified,omitempty"`

	job Job
}

// Choice is a way to make the step.
type Choice struct {
	Kind       string `json:"kind"`        // of host memory
	Path       string `json:"path"`        // how the data travels
	ChunkBytes int    `json:"chunk_bytes"` // of the larger end; all of it if there are no chunks
	Streams    int    `json:"streams"`
	Predicted  int64  `json:"predicted_ns"`
}

// Alternative is a choice with reasons.
type Alternative struct {
	Choice
	Terms        []Term `json:"terms"` // they add up to the predicted time
	Why          string `json:"why"`   // why it is the best, or loses
	Extrapolated string `json:"extrapolated,omitempty"`
	Measured     *int64 `json:"measured_ns,omitempty"`

	way way
}

// Flip is a change of the job that changes the best kind.
type Flip struct {
	Parameter string `json:"parameter"` // "reuse", "size" or "access"
	At        string `json:"at"`        // the nearest value with another answer, or all other accesses with that answer
	Kind      string `json:"kind"`      // the best kind there
	Path      string `json:"path"`
	Predicted int64  `json:"predicted_ns"` // its time there
	Instead   int64  `json:"instead_ns"`   // the time of this report's best kind there
}

type jobJSON struct {
	In        int     `json:"in_bytes"`
	Out       int     `json:"out_bytes"`
	Reuse     int     `json:"reuse"`
	Access    string  `json:"access"`
	Threads   int     `json:"threads"`
	KernelNs  int64   `json:"kernel_ns"`
	HostReads bool    `json:"host_reads"`
	Rate      float64 `json:"calls_per_second"`
	Devices   int     `json:"devices"`
	Source    string  `json:"source"`
}

func (j *Job) json() jobJSON {
	return jobJSON{j.In, j.Out, j.Reuse, j.Access.String(), j.Threads, j.Kernel.Nanoseconds(), j.HostReads, j.Rate, j.Devices, j.Source}
}

// JSON returns the report as one document.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.Marshal(r)
	return append(text, '\n'), err
}
