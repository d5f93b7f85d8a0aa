package load

import "encoding/json"

// Schema is the schema of the JSON of a report.
const Schema = "ferry.load/1"

// Report is what a load has found, or a plan of one. Times are nanoseconds.
type Report struct {
	Schema  string   `json:"schema"`
	Device  string   `json:"device"`
	Files   []string `json:"files"`
	Tensors int      `json:"tensors"`         // that are selected
	Of      int      `json:"of"`              // all tensors of the files
	Bytes   int64    `json:"bytes"`           // of the tensors in the files
	Memory  int64    `json:"device_bytes"`    // of the buffer on the device
	To      string   `json:"to,omitempty"`    // the type that was asked for
	Types   []Type   `json:"types,omitempty"` // not of a plan

	Plan     *Plan         `json:"plan,omitempty"`     // with --plan
	Load     *Load         `json:"load,omitempty"`     // without
	Verified *Verification `json:"verified,omitempty"` // with --verify
}

// Type is the tensors of one type.
type Type struct {
	Name    string `json:"name"` // in the files
	As      string `json:"as"`   // on the device
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"` // in the files
}

// Plan says what a load would do. Nothing but headers was read.
type Plan struct {
	Reads   int    `json:"reads"`       // ranges of the files that are read without a break
	Extra   int64  `json:"extra_bytes"` // device memory that a conversion needs beside the buffer
	Free    int64  `json:"free_bytes"`  // of the device
	Fits    bool   `json:"fits"`
	Profile string `json:"profile"`      // by which the time is predicted; "" if there is none for the device
	Ns      int64  `json:"predicted_ns"` // of the copies over the link, from files in memory
}

// Load says how a load went.
type Load struct {
	Predicted bool   `json:"predicted"`         // by the software GPU: its clock does not count the reading of files
	Ns        int64  `json:"ns"`                // from the opening of the files until all bytes were on the device
	Pinned    int64  `json:"page_locked_bytes"` // of the staging ring, at most
	Parts     Parts  `json:"parts"`
	Bound     Bound  `json:"bound"`
	Why       string `json:"why"` // a sentence
}

// Parts are where the time of a load went. The first four are times of it that add up to all.
type Parts struct {
	Link    int64 `json:"link_ns"`          // copies over the link, or kernels, were in progress
	Pinning int64 `json:"page_locking_ns"`  // none was, and memory was being page-locked
	Memory  int64 `json:"device_memory_ns"` // none was, and memory of the device was being allocated
	Rest    int64 `json:"other_ns"`         // none was: files were read, or calls of the driver made

	Disk *int64 `json:"disk_bytes"` // that came from disks and not from the page cache; null if not known
	CPU  int64  `json:"cpu_ns"`     // of all threads of this process; 0 if not known
}

// Bound is what a load was bounded by.
type Bound string

// The bounds.
const (
	ByLink    Bound = "link"
	ByDisk    Bound = "disk"
	ByCPU     Bound = "cpu"
	ByPinning Bound = "page-locking"
	ByMemory  Bound = "device memory"
	ByFiles   Bound = "files" // read from a disk or from memory: it is not known which
	ByCalls   Bound = "calls" // of the driver; on the software GPU, where files take no time
)

// Verification is the result of --verify: all bytes are equal.
type Verification struct {
	Tensors int   `json:"tensors"`
	Bytes   int64 `json:"bytes"`
	Ns      int64 `json:"ns"`
}

// JSON returns the report as one document.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.Marshal(r)
	return append(text, '\n'), err
}
