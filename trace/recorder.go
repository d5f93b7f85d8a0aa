package trace

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"

	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/internal/printable"
)

// Schema is the name of the format of recordings, in their first line.
const Schema = "ferry.trace/1"

// DefaultLimit is the size of a recording in bytes unless [Options] or FERRY_TRACE_LIMIT
// choose another. A driver call and its operation have about 250 bytes together.
const DefaultLimit = 1 << 30

// Options choose what [Start] records, and where.
type Options struct {
	// Path is the file to write. What was there is replaced when the recording has begun, so
	// that it stays if the disk is full then; elsewhere than on Unix it is emptied at once. A
	// folder, a device and a named pipe are refused, but /dev/stdout and the like are not.
	// "%p" stands for the process id.
	// While another recording is written to it, the process id is added to the name, and
	// standard error says so; see [Recorder.Path].
	// With "" nothing is written, for Log, Regions and Observe alone.
	Path string
	// Limit is the largest size of the file in bytes; 0 stands for DefaultLimit. What
	// comes later is counted and not kept.
	Limit int64
	// Log gets a record of each call and operation at level Debug, and of lost rows at
	// level Warn. Nil for none.
	Log *slog.Logger
	// Regions makes a region of package runtime/trace of each call, while a trace of Go's
	// execution is being taken.
	Regions bool
	// Observe gets each call and each operation of wrapped drivers when it has ended, as with
	// the function [Observe]. Nil for none.
	Observe func(*Finished)
}

// Recorder writes a recording. It is safe for concurrent use.
//
// Rows are kept for at most 20 milliseconds, so that a crash loses little. They are also
// written when a call waits for the device or fails. The row of an operation of hardware comes
// when a goroutine has read its times, some milliseconds after its end, and for the first 1024
// of a context when a call has waited. If the file cannot be written, the program goes on; what
// is lost is counted in the first line of the file.
type Recorder struct {
	log     *slog.Logger
	regions bool
	began   time.Time
	calls   atomic.Uint64 // calls so far
	drivers atomic.Int64
	sites   *callsite.Finder

	observer *observer

	timersMu sync.Mutex
	timers   map[*timer]bool // that have operations without times

	mu       sync.Mutex
	file     file   // nil for none
	path     string // of the file, or the one that could not be begun
	none     bool   // the file could not be begun; set by Start alone
	limit    int64
	head     header
	buf      []byte    // rows that are not written yet
	rows     [3]uint64 // in buf, by kind
	size     int64     // bytes of whole rows in the file
	stopped  bool      // nothing is written any more
	unsaid   bool      // head has counts that the file lacks
	armed    bool      // the timer will flush
	closed   bool
	flushing *time.Timer
}

// file is what a recorder needs of an os.File.
type file interface {
	io.Writer
	io.WriterAt
	io.Closer
	Truncate(size int64) error
}

// header is the first line of a recording. Spaces fill it up to headerBytes, so that it
// can be written again when rows are lost.
type header struct {
	Schema    string `json:"schema"`
	PID       int    `json:"pid"`
	Program   string `json:"program"`
	Go        string `json:"go"`
	Began     string `json:"began"` // RFC 3339
	LostCalls uint64 `json:"lost_calls"`
	LostOps   uint64 `json:"lost_ops"`
	Why       string `json:"why,omitempty"` // why rows were lost
}

// Sizes of the writer.
const (
	headerBytes = 1024
	flushBytes  = 64 << 10
	flushDelay  = 20 * time.Millisecond
)

// Kinds of rows that are counted.
const (
	rowCall = iota
	rowOp
	rowOther // not counted when they are lost
)

// Start begins a recording. nil options are an error, as are options that record
// nothing. Close ends it.
func Start(o *Options) (*Recorder, error) {
	if o == nil || o.Path == "" && o.Log == nil && !o.Regions && o.Observe == nil {
		return nil, fmt.Errorf("start a recording: no file, log, regions or observer given: %w", cu.ErrorInvalidValue)
	}
	if o.Limit < 0 || o.Limit > 0 && o.Limit < 2*headerBytes {
		return nil, fmt.Errorf("start a recording: the limit is %d bytes, must be at least %d, or 0 for %d: %w",
			o.Limit, 2*headerBytes, DefaultLimit, cu.ErrorInvalidValue)
	}
	r := newRecorder(o)
	if o.Path == "" {
		return r, nil
	}
	if err := r.begin(); err != nil {
		return nil, fmt.Errorf("start a recording: %w", err)
	}
	return r, nil
}

// begin writes the first line to a new file beside the path, and then puts it there. If the
// line cannot be written, the path has what it had, and nothing is recorded. Close says why.
func (r *Recorder) begin() error {
	f, err := outfile.Begin(r.path)
	if err != nil {
		return err
	}
	r.open(f)
	if r.stopped {
		r.file, r.none, r.unsaid = nil, true, false
		f.Drop()
		return nil
	}
	err = f.Show()
	if errors.Is(err, outfile.ErrBusy) {
		err = r.showBeside(f)
	}
	if err != nil {
		f.Drop()
	}
	return err
}

// showBeside adds the process id to the name, because another recording has the path, and says
// so.
func (r *Recorder) showBeside(f *outfile.Growing) error {
	own := r.path + "." + strconv.Itoa(os.Getpid())
	if err := f.ShowAs(own); err != nil {
		return fmt.Errorf("another recording is written to %s: %w", printable.Path(r.path), err)
	}
	fmt.Fprintf(os.Stderr, "ferry: another recording is written to %s; process %d writes %s (%%p in the name is the process id)\n", printable.Path(r.path), os.Getpid(), printable.Path(own))
	r.path = own
	return nil
}

// newRecorder returns a recorder without a file.
func newRecorder(o *Options) *Recorder {
	r := &Recorder{log: o.Log, regions: o.Regions, began: time.Now(), limit: o.Limit}
	r.path = strings.ReplaceAll(o.Path, "%p", strconv.Itoa(os.Getpid()))
	if r.limit == 0 {
		r.limit = DefaultLimit
	}
	r.sites, r.observer = new(callsite.Finder), new(observer)
	r.observer.set(o.Observe)
	program := "?"
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	r.head = header{Schema: Schema, PID: os.Getpid(), Program: program[:min(len(program), 256)], Go: runtime.Version(), Began: r.began.Format(time.RFC3339Nano)}
	return r
}

// open begins to write to f.
func (r *Recorder) open(f file) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file = f
	if _, err := f.Write(r.head.line()); err != nil {
		r.fail(err)
		return
	}
	r.size = headerBytes
}

// Path returns the name of the file; "" for none. There is none, too, if the disk was full when
// the recording began: the path of the options then has what it had.
func (r *Recorder) Path() string {
	if r == nil || r.none {
		return ""
	}
	return r.path
}

// now returns the time since the start of the recording in nanoseconds.
func (r *Recorder) now() int64 { return int64(time.Since(r.began)) }

func (r *Recorder) newCall() uint64 { return r.calls.Add(1) }

func (r *Recorder) newDriver() int { return int(r.drivers.Add(1)) }

// added notes that the buffer has another row. The caller holds mu.
func (r *Recorder) added(kind int) {
	r.rows[kind]++
	if len(r.buf) >= flushBytes {
		r.write()
	} else if !r.armed && !r.closed {
		r.arm()
	}
}

// arm lets the timer write the rows soon. The caller holds mu.
func (r *Recorder) arm() {
	r.armed = true
	if r.flushing == nil {
		r.flushing = time.AfterFunc(flushDelay, r.timeout)
	} else {
		r.flushing.Reset(flushDelay)
	}
}

func (r *Recorder) timeout() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = false
	r.write()
}

// unread notes that a timer may have operations without times.
func (r *Recorder) unread(t *timer) {
	r.timersMu.Lock()
	defer r.timersMu.Unlock()
	if r.timers == nil {
		r.timers = map[*timer]bool{}
	}
	r.timers[t] = true
}

// allRead notes that a timer has the times of all operations, if these are still the pushed ones. Who
// pushes another one calls unread after that.
func (r *Recorder) allRead(t *timer, pushed uint64) {
	r.timersMu.Lock()
	defer r.timersMu.Unlock()
	if t.reader.pushed.Load() == pushed {
		delete(r.timers, t)
	}
}

// read reads the times of all operations that are done.
func (r *Recorder) read() {
	r.timersMu.Lock()
	all := slices.Collect(maps.Keys(r.timers))
	r.timersMu.Unlock()
	for _, t := range all {
		t.readAll()
	}
}

// Flush writes what was recorded so far, with the operations that are done. The error says why rows were lost, if any were.
func (r *Recorder) Flush() error {
	if r == nil {
		return fmt.Errorf("write a recording: no recorder given: %w", cu.ErrorInvalidValue)
	}
	r.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write()
	return r.lost()
}

// lost returns the error for lost rows. The caller holds mu.
func (r *Recorder) lost() error {
	if r.head.LostCalls+r.head.LostOps == 0 && r.head.Why == "" {
		return nil
	}
	if r.none {
		return fmt.Errorf("record %s: nothing was recorded: %s", r.path, r.head.Why)
	}
	return fmt.Errorf("record %s: %d calls and %d operations were lost: %s", r.path, r.head.LostCalls, r.head.LostOps, r.head.Why)
}

// Close writes what is left, with the operations that are done, and closes the file. Later rows are lost without a count. The
// error says why rows were lost, if any were. A second Close does nothing, nor does Close of a
// nil Recorder.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	r.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	if r.flushing != nil {
		r.flushing.Stop()
	}
	if r.file == nil {
		return r.lost()
	}
	r.buf = append(r.buf, `{"end":`...)
	r.buf = strconv.AppendUint(r.buf, uint64(r.now()), 10)
	r.buf = append(r.buf, "}\n"...)
	r.write()
	err := errors.Join(r.lost(), r.file.Close())
	r.file = nil
	return err
}

// write writes the rows of the buffer, or counts them as lost. The caller holds mu.
func (r *Recorder) write() {
	rows, n := r.rows, len(r.buf)
	r.rows = [3]uint64{}
	defer func() { r.buf = r.buf[:0] }()
	switch {
	case r.file == nil || n == 0:
	case r.stopped:
		r.lose(rows)
	case r.size+int64(n) > r.limit:
		r.stopped = true
		r.head.Why = fmt.Sprintf("the limit of %d bytes was reached", r.limit)
		r.lose(rows)
	default:
		if _, err := r.file.Write(r.buf); err != nil {
			r.fail(err)
			r.lose(rows)
			break
		}
		r.size += int64(n)
	}
	if r.unsaid {
		r.unsaid = false
		_, _ = r.file.WriteAt(r.head.line(), 0) // a reader of a file without it finds no end row
	}
}

// fail ends the writing after an error. The caller holds mu.
func (r *Recorder) fail(err error) {
	r.stopped, r.unsaid = true, true
	why := err.Error()
	r.head.Why = why[:min(len(why), 256)]
	_ = r.file.Truncate(r.size) // without the part of a row at the end; a reader can do without this
	fmt.Fprintf(os.Stderr, "ferry: recording stops, the program goes on: %s\n", printable.Line(err.Error()))
}

// lose counts rows as lost. The caller holds mu.
func (r *Recorder) lose(rows [3]uint64) {
	if r.log != nil && r.head.LostCalls+r.head.LostOps == 0 {
		r.log.Warn("rows of the recording are lost", "file", r.path, "why", r.head.Why)
	}
	r.head.LostCalls += rows[rowCall]
	r.head.LostOps += rows[rowOp]
	r.unsaid = true
}
