package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/printable"
)

// Recording is what [Read] finds in a file.
type Recording struct {
	Program string
	PID     int
	Go      string // version of Go
	Began   time.Time

	LostCalls, LostOps uint64 // rows that could not be written
	Why                string // why rows were lost; "" if none were

	// Cut says that the last row of the file is incomplete, and where; "" if all rows are
	// whole. A program that was stopped while it wrote leaves such a file.
	Cut string

	Drivers    []DriverInfo
	Devices    []DeviceInfo
	Sites      map[int]Site
	Calls      []Call      // in the order in which they ended
	Operations []Operation // in the order in which their ends became known
}

// DriverInfo is a driver of a recording.
type DriverInfo struct {
	ID      int
	Clock   string // of its rows: "virtual" on a software GPU, else "host"
	Profile string // of a software GPU, such as "h200"
}

// Virtual reports whether the driver's times are predictions.
func (d *DriverInfo) Virtual() bool { return d != nil && d.Clock == "virtual" }

// DeviceInfo is a device of a driver.
type DeviceInfo struct {
	ID, Driver int
	Name       string
	Node       int // NUMA node, or NoNode
}

// Site is a line of the program.
type Site struct {
	File string
	Line int
	Func string
	// Pipeline is whether package pipeline made the calls for the line. It is false in recordings of
	// older versions.
	Pipeline bool
}

// String returns "main.go:62", or "" for no line.
func (s Site) String() string {
	if s.File == "" {
		return ""
	}
	return callsite.Line(s.File, s.Line)
}

// Call is a driver call. Times are nanoseconds on the clock of the driver.
type Call struct {
	ID         uint64
	Name       string // of the C function
	Driver     int
	Start, End int64
	Track      int // calls in progress at the same time have different tracks
	Site       int
	Stream     int // NoStream for none, 0 for the default stream
	Bytes      uint64
	Error      string

	// Address is where the call allocates, frees or writes memory, and Source where it
	// copies from; 0 for calls without addresses. Of a batch they are those of its first
	// copy.
	Address, Source uint64
	// Memory is the kind of the memory that the call allocates or page-locks, one of those
	// of Operation.From; "" for other calls, and in recordings of older versions.
	Memory string
	// Node is the NUMA node of the first page of host memory that the call page-locks on
	// hardware, else NoNode.
	Node int
}

// NoStream is the stream of calls without a stream, and of the nodes of graphs on a
// software GPU.
const NoStream = noStreamNumber

// Operation is an operation of a device.
type Operation struct {
	ID     uint64
	Call   uint64 // that queued it
	Name   string // a kernel's name, or a name as in the tables of nvprof
	Driver int
	Device int
	Stream int
	Engine string
	// From and To are the kinds of memory of a copy: device, page-locked, registered, managed
	// or pageable. Memory of ferry.AllocHost is page-locked. Memory is registered if the
	// program had it before, as with ferry.Register. In recordings of older versions much
	// memory of AllocHost is registered.
	From, To string
	Bytes    uint64
	Count    int // calls of a batch that are one operation

	Untimed    string // why it has no times; "" if it has
	Queued     int64  // when the call had queued it
	Start, End int64

	After uint64 // the operation that it waited for last; 0 if none is known
	Why   string // why it did not start earlier: host, order, engine, queue, check, unknown

	// Part is the longest part of a kernel's time on a software GPU, as [cu.KernelPart]
	// names it, and PartTime its time in nanoseconds; "" if not known.
	Part     string
	PartTime int64
}

// wire is any row.
type wire struct {
	Schema    *string `json:"schema"`
	Driver    int     `json:"driver"`
	DeviceRow *int    `json:"device"`
	SiteRow   int     `json:"site"`
	CallRow   uint64  `json:"call"`
	OpRow     uint64  `json:"op"`
	EndRow    int64   `json:"end"`

	PID       int    `json:"pid"`
	Program   string `json:"program"`
	Go        string `json:"go"`
	Began     string `json:"began"`
	LostCalls uint64 `json:"lost_calls"`
	LostOps   uint64 `json:"lost_ops"`

	Clock   string `json:"clock"`
	Profile string `json:"profile"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Func    string `json:"func"`
	InPipe  bool   `json:"pipeline"`

	Name   string `json:"name"`
	Start  int64  `json:"start"`
	Track  int    `json:"track"`
	Stream *int   `json:"stream"`
	Bytes  uint64 `json:"bytes"`
	Error  string `json:"error"`

	Address  uint64 `json:"address"`
	SourceAt uint64 `json:"source"`
	Memory   string `json:"memory"`
	Node     *int   `json:"node"`

	Engine  string `json:"engine"`
	From    string `json:"from"`
	To      string `json:"to"`
	Count   int    `json:"count"`
	Untimed string `json:"untimed"`
	Queued  int64  `json:"queued"`
	After   uint64 `json:"after"`
	Why     string `json:"why"`
	Part    string `json:"part"`
	PartNs  int64  `json:"part_ns"`
}

// ErrNotRecording is wrapped by the errors of files that are no recordings, or recordings
// in another version of the format.
var ErrNotRecording = errors.New("not a recording of ferry")

// ReadFile reads the recording in a file; see [Read].
func ReadFile(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read recording: %w", printable.Error(err))
	}
	defer f.Close()
	rec, err := Read(f)
	if err != nil {
		err = fmt.Errorf("read recording %s: %w", printable.Path(path), err)
	}
	return rec, err
}

// longestLine is the longest line of a recording in bytes. No row comes near it.
const longestLine = 1 << 20

// Read reads a recording. An incomplete last row is no error; Cut says it. After an error
// in a later row, which the error names by line and byte, the recording has the rows
// before it.
func Read(from io.Reader) (*Recording, error) {
	if from == nil {
		return nil, fmt.Errorf("read recording: no reader given: %w", cu.ErrorInvalidValue)
	}
	in := bufio.NewReaderSize(from, longestLine)
	r := &Recording{Sites: map[int]Site{}}
	offset := int64(0)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull && n == 1:
			return nil, fmt.Errorf("line 1, byte 0: it is longer than %d bytes: %w", longestLine, ErrNotRecording)
		case err == bufio.ErrBufferFull:
			return r, fmt.Errorf("line %d, byte %d: it is longer than %d bytes", n, offset, longestLine)
		case err == io.EOF && len(line) == 0 && n == 1:
			return nil, fmt.Errorf("line 1, byte 0: the file is empty: %w", ErrNotRecording)
		case err == io.EOF && len(line) == 0:
			return r, nil
		case err == io.EOF && n > 1:
			r.Cut = fmt.Sprintf("line %d, byte %d: the last row is incomplete", n, offset)
			return r, nil
		case err != nil && err != io.EOF && n == 1:
			return nil, fmt.Errorf("line 1, byte 0: %w", err)
		case err != nil && err != io.EOF:
			return r, fmt.Errorf("line %d, byte %d: %w", n, offset, err)
		case n == 1:
			if err := r.head(line); err != nil {
				return nil, err
			}
		default:
			if err := r.row(line); err != nil {
				return r, fmt.Errorf("line %d, byte %d: %w", n, offset, err)
			}
		}
		offset += int64(len(line))
	}
}

// head reads the first line.
func (r *Recording) head(line []byte) error {
	var w wire
	if err := json.Unmarshal(line, &w); err != nil || w.Schema == nil {
		return fmt.Errorf("line 1, byte 0: want {\"schema\":%q, found %.40q: %w", Schema, bytes.TrimSpace(line), ErrNotRecording)
	}
	if *w.Schema != Schema {
		return fmt.Errorf("line 1, byte 0: the schema is %q, and this version reads %q: %w", *w.Schema, Schema, ErrNotRecording)
	}
	r.PID, r.Program, r.Go = w.PID, w.Program, w.Go
	r.Began, _ = time.Parse(time.RFC3339Nano, w.Began)
	r.LostCalls, r.LostOps, r.Why = w.LostCalls, w.LostOps, w.Why
	return nil
}

// row reads a later line.
func (r *Recording) row(line []byte) error {
	w := wire{}
	if err := json.Unmarshal(line, &w); err != nil {
		return fmt.Errorf("malformed row: %w", err)
	}
	stream := NoStream
	if w.Stream != nil {
		stream = *w.Stream
	}
	key, _, _ := bytes.Cut(line, []byte(":"))
	switch string(key) {
	case `{"call"`:
		r.Calls = append(r.Calls, Call{w.CallRow, w.Name, w.Driver, w.Start, w.EndRow, w.Track, w.SiteRow, stream, w.Bytes, w.Error, w.Address, w.SourceAt, w.Memory, node(w.Node)})
	case `{"op"`:
		o := Operation{ID: w.OpRow, Call: w.CallRow, Name: w.Name, Driver: w.Driver, Stream: stream, Engine: w.Engine,
			From: memoryName(w.From), To: memoryName(w.To), Bytes: w.Bytes, Count: w.Count, Untimed: w.Untimed, Queued: w.Queued, Start: w.Start, End: w.EndRow, After: w.After, Why: w.Why,
			Part: w.Part, PartTime: w.PartNs}
		if w.DeviceRow != nil {
			o.Device = *w.DeviceRow
		}
		r.Operations = append(r.Operations, o)
	case `{"site"`:
		r.Sites[w.SiteRow] = Site{w.File, w.Line, w.Func, w.InPipe}
	case `{"driver"`:
		r.Drivers = append(r.Drivers, DriverInfo{w.Driver, w.Clock, w.Profile})
	case `{"device"`:
		if w.DeviceRow != nil {
			r.Devices = append(r.Devices, DeviceInfo{*w.DeviceRow, w.Driver, w.Name, node(w.Node)})
		}
	case `{"end"`:
	default:
		return fmt.Errorf("malformed row: %.40q is no kind of row", line)
	}
	return nil
}

// memoryName returns a kind of memory. Older versions wrote "pinned" for page-locked memory.
func memoryName(kind string) string {
	if kind == "pinned" {
		return pageLocked
	}
	return kind
}

// node returns the node that a row has, or NoNode.
func node(of *int) int {
	if of == nil {
		return NoNode
	}
	return *of
}
