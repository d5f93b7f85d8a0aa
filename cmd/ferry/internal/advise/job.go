package advise

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Job is a step of a program: the CPU has written In bytes, a kernel reads them and writes
// Out bytes, and the CPU can see these.
type Job struct {
	In, Out   int           // bytes, multiples of 4
	Reuse     int           // passes of the kernel over all of the input, each by other blocks
	Access    Access        // which words a pass reads
	Threads   int           // of the kernel; 0 for what suits the access
	Kernel    time.Duration // least time of the kernel
	HostReads bool          // the CPU reads all results, as part of the step
	Rate      float64       // steps a second that the program wants; 0 if it does not say
	Devices   int           // GPUs that share the data, each with a link of its own
	Source    string        // where the data is: one of the Sources

	// delay, if not 0, stands for the kernel: it touches no data and takes this time.
	delay time.Duration
}

// Sources of the data. Slice: the program writes it to memory that it allocates. File: the
// program reads it from a file. Existing: other code has allocated the memory.
const (
	Slice    = "slice"
	File     = "file"
	Existing = "existing"
)

// Sources returns all sources.
func Sources() []string { return []string{Slice, File, Existing} }

// Bounds of a job.
const (
	MaxBytes   = 64 << 30
	maxReuse   = 1 << 20
	maxThreads = 1 << 24
	maxKernel  = 10 * time.Second
	maxDevices = 16
	maxTable   = 1 << 20
	maxNumber  = 1 << 20 // of stride and stencil
)

// OptionError is an option that cannot be used. It names the flag of the command.
type OptionError struct{ Flag, Value, Want string }

func (e *OptionError) Error() string { return fmt.Sprintf("--%s %s: want %s", e.Flag, e.Value, e.Want) }

// Check returns an [OptionError] for a job that cannot be run.
func (j *Job) Check() error {
	for _, c := range []struct {
		bad         bool
		flag, value string
		want        string
	}{
		{j.In < 0 || j.In > MaxBytes || j.In%4 != 0, "in", strconv.Itoa(j.In), bytesWanted},
		{j.Out < 0 || j.Out > MaxBytes || j.Out%4 != 0, "out", strconv.Itoa(j.Out), bytesWanted},
		{j.In == 0 && j.Out == 0, "in", "0", "more than 0 bytes if --out is 0"},
		{j.Reuse < 1 || j.Reuse > maxReuse, "reuse", strconv.Itoa(j.Reuse), fmt.Sprintf("1 to %d passes", maxReuse)},
		{j.Threads < 0 || j.Threads > maxThreads, "threads", strconv.Itoa(j.Threads), fmt.Sprintf("1 to %d, or 0 for what suits the access", maxThreads)},
		{j.Kernel < 0 || j.Kernel > maxKernel, "kernel-time", j.Kernel.String(), "0 to " + maxKernel.String()},
		{j.Rate < 0 || j.Rate > 1e9 || math.IsNaN(j.Rate), "calls-per-second", fmt.Sprint(j.Rate), "0 to 1e9"},
		{j.Devices < 1 || j.Devices > maxDevices, "devices", strconv.Itoa(j.Devices), fmt.Sprintf("1 to %d", maxDevices)},
		{j.Source != Slice && j.Source != File && j.Source != Existing, "source", strconv.Quote(j.Source), strings.Join(Sources(), ", ")},
		{j.Access.Kind == Table && j.In > maxTable, "access", Table, fmt.Sprintf("--in of at most %d bytes with it: each block reads all of it; random reads larger tables", maxTable)},
		{j.Access.Kind == Table && j.Devices > 1, "access", Table, "--devices 1 with it: a table cannot be divided"},
		{j.Access.Kind == Random && j.Devices > 1, "access", Random, "--devices 1 with it: any word may be read, so the input cannot be divided"},
		{j.In == 0 && j.Reuse > 1, "reuse", strconv.Itoa(j.Reuse), "1 if --in is 0"},
	} {
		if c.bad {
			return &OptionError{c.flag, c.value, c.want}
		}
	}
	return j.Access.check()
}

const bytesWanted = "a multiple of 4 bytes up to 64GiB, such as 1048576, 64KiB, 1.5MiB or 2GiB"

// ParseBytes reads a number of bytes with a unit: 4096, 64KiB, 1.5MiB, 2G. The units K, M
// and G are powers of 1024, too.
func ParseBytes(flag, text string) (int, error) {
	number, unit := strings.TrimSpace(text), 1.0
	for i, name := range []string{"K", "M", "G"} {
		for _, end := range []string{name + "iB", name + "B", name, strings.ToLower(name)} {
			if rest, found := strings.CutSuffix(number, end); found {
				number, unit = rest, float64(int(1)<<(10*(i+1)))
			}
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if n := v * unit; err == nil && n >= 0 && n <= MaxBytes && n == math.Trunc(n) && int(n)%4 == 0 {
		return int(n), nil
	}
	return 0, &OptionError{flag, strconv.Quote(text), bytesWanted}
}

// Access says which words a pass of the kernel reads.
type Access struct {
	Kind   string // Stream, Stride, Random, Table or Stencil
	Number int    // of Stride and Stencil, else 0
}

// Kinds of access.
const (
	Stream  = "stream"  // all words, neighbouring threads neighbouring words
	Stride  = "stride"  // one word in Number
	Random  = "random"  // as many words as there are, each anywhere
	Table   = "table"   // each block all words
	Stencil = "stencil" // for each word that and the next ones, Number together
)

const accessWanted = "stream, stride=N, random, table or stencil=N"

// ParseAccess reads a text like "stream" or "stencil=4".
func ParseAccess(text string) (Access, error) {
	kind, number, has := strings.Cut(text, "=")
	a := Access{Kind: kind}
	var err error
	if has {
		a.Number, err = strconv.Atoi(number)
	}
	if err != nil || a.check() != nil {
		return a, &OptionError{"access", strconv.Quote(text), fmt.Sprintf("%s, N from 1 to %d", accessWanted, maxNumber)}
	}
	return a, nil
}

func (a Access) check() error {
	takes := a.Kind == Stride || a.Kind == Stencil
	known := takes || a.Kind == Stream || a.Kind == Random || a.Kind == Table
	if !known || takes != (a.Number > 0) || a.Number > maxNumber {
		return &OptionError{"access", a.String(), fmt.Sprintf("%s, N from 1 to %d", accessWanted, maxNumber)}
	}
	return nil
}

// String returns the text that ParseAccess reads.
func (a Access) String() string {
	if a.Number != 0 {
		return fmt.Sprintf("%s=%d", a.Kind, a.Number)
	}
	return a.Kind
}

// divides reports whether the data can be worked on in parts.
func (a Access) divides() bool { return a.Kind != Random && a.Kind != Table }

// part returns part i of n of the job, on one device.
func (j Job) part(i, n int) Job {
	p := j
	first, end := j.bounds(j.In, i, n)
	p.In = 4 * (end - first)
	first, end = j.bounds(j.Out, i, n)
	p.Out = 4 * (end - first)
	p.Kernel, p.delay = j.Kernel/time.Duration(n), j.delay/time.Duration(n)
	return p
}

// bounds returns the first word, and the one after the last, of part i of n of the given bytes.
func (j Job) bounds(bytes, i, n int) (first, end int) {
	words := bytes / 4
	return words/n*i + min(i, words%n), words/n*(i+1) + min(i+1, words%n)
}
