package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/softgpu"
)

// Schema is the version of the document that [Result.JSON] returns.
const Schema = "ferry.run/1"

// maxValues is how many elements of an output are kept for the result.
const maxValues = 65536

// Result is the result of a launch.
type Result struct {
	Device      info.Device
	Kernel      string
	Grid, Block cu.Dim3
	Shared      int // bytes of dynamic shared memory
	Memory      Memory
	Seed        uint64
	Outputs     []Output
	Warnings    []string
	Printf      string            // what the kernel printed, at most MaxPrintf bytes; see SetPrintf
	PrintfCut   bool              // it printed more
	Checked     bool              // whether the kernel was checked
	Findings    []softgpu.Finding // of the checks
	GaveUp      []softgpu.GaveUp  // by the checks

	Wall       time.Duration // from the launch until the host knows that it is done, on this host's clock
	DeviceTime time.Duration // between events around the kernel; on the virtual clock if Device.Emulated
	Threads    uint64        // number of threads launched
}

// Output is an out or inout buffer after the launch.
type Output struct {
	Arg      int // the kernel's parameter, from 0
	Text     string
	Type     Type
	Elements int
	SHA256   [sha256.Size]byte // of all bytes

	head []byte // the first elements, at most maxValues
}

// MaxPrintf is how many bytes of the output of kernels a document has.
const MaxPrintf = 64 << 10

// SetPrintf sets what the kernel printed, and cuts it to MaxPrintf bytes.
func (r *Result) SetPrintf(text string) {
	r.PrintfCut = len(text) > MaxPrintf
	r.Printf = text[:min(len(text), MaxPrintf)]
}

// collector collects an output from the chunks of a buffer.
type collector struct {
	out  Output
	keep int // bytes to keep in out.head
	size int // bytes of the buffer
	got  int // bytes added
	sum  hash.Hash
}

func newCollector(arg int, a *Arg, size int) *collector {
	n := size / a.Type.Size()
	return &collector{
		out:  Output{Arg: arg, Text: a.Text, Type: a.Type, Elements: n},
		keep: min(n, maxValues) * a.Type.Size(), size: size, sum: sha256.New(),
	}
}

// add adds the next bytes.
func (c *collector) add(data []byte) {
	c.got += len(data)
	c.sum.Write(data)
	if missing := c.keep - len(c.out.head); missing > 0 {
		c.out.head = append(c.out.head, data[:min(missing, len(data))]...)
	}
}

// output returns the output. It fails unless all bytes were added.
func (c *collector) output() (Output, error) {
	if c.got != c.size {
		return Output{}, fmt.Errorf("got %d of %d bytes", c.got, c.size)
	}
	c.sum.Sum(c.out.SHA256[:0])
	return c.out, nil
}

// shown returns how many elements were kept.
func (o *Output) shown() int { return len(o.head) / o.Type.Size() }

// ThreadsPerSecond returns the number of threads divided by the wall time.
func (r *Result) ThreadsPerSecond() float64 {
	return float64(r.Threads) / max(r.Wall, 1).Seconds()
}

type resultJSON struct {
	Schema              string       `json:"schema"`
	Device              info.Device  `json:"device"`
	Kernel              string       `json:"kernel"`
	Grid                [3]uint32    `json:"grid"`
	Block               [3]uint32    `json:"block"`
	Shared              int          `json:"shared_bytes"`
	Memory              string       `json:"memory"`
	Seed                uint64       `json:"seed"`
	Outputs             []outputJSON `json:"outputs"`
	Printf              string       `json:"printf,omitempty"`
	PrintfCut           bool         `json:"printf_truncated,omitempty"`
	Wall                int64        `json:"wall_ns"`
	DeviceTime          int64        `json:"device_ns"`
	DeviceTimePredicted bool         `json:"device_ns_predicted"`
	Threads             uint64       `json:"threads"`
	ThreadsPerSecond    float64      `json:"launch_threads_per_s"`

	Findings *[]softgpu.Finding `json:"findings,omitempty"` // absent without checks
	GaveUp   *[]softgpu.GaveUp  `json:"gave_up,omitempty"`
}

type outputJSON struct {
	Arg       int             `json:"arg"`
	Type      string          `json:"type"`
	Elements  int             `json:"elements"`
	Values    json.RawMessage `json:"values"`
	Truncated bool            `json:"truncated"`
	SHA256    string          `json:"sha256"`
}

// JSON returns the result as one document. With bits, values are shown as bit patterns,
// such as "0x3f800000".
func (r *Result) JSON(bits bool) ([]byte, error) {
	doc := resultJSON{
		Schema: Schema, Device: r.Device, Kernel: r.Kernel,
		Grid: [3]uint32{r.Grid.X, r.Grid.Y, r.Grid.Z}, Block: [3]uint32{r.Block.X, r.Block.Y, r.Block.Z},
		Shared: r.Shared, Memory: r.Memory.String(), Seed: r.Seed, Outputs: []outputJSON{}, Printf: r.Printf, PrintfCut: r.PrintfCut,
		Wall: r.Wall.Nanoseconds(), DeviceTime: r.DeviceTime.Nanoseconds(), DeviceTimePredicted: r.Device.Emulated,
		Threads: r.Threads, ThreadsPerSecond: r.ThreadsPerSecond(),
	}
	if r.Checked {
		findings := append([]softgpu.Finding{}, r.Findings...)
		gaveUp := append([]softgpu.GaveUp{}, r.GaveUp...)
		doc.Findings, doc.GaveUp = &findings, &gaveUp
	}
	for i := range r.Outputs {
		doc.Outputs = append(doc.Outputs, r.Outputs[i].json(bits))
	}
	text, err := json.Marshal(doc)
	return append(text, '\n'), err
}

func (o *Output) json(bits bool) outputJSON {
	values := []byte{'['}
	for i := range o.shown() {
		if i > 0 {
			values = append(values, ',')
		}
		v := Element(o.head, o.Type, i)
		if bits {
			values = append(appendBits(append(values, '"'), o.Type, v), '"')
		} else {
			values = appendJSON(values, o.Type, v)
		}
	}
	return outputJSON{
		Arg: o.Arg, Type: o.Type.String(), Elements: o.Elements,
		Values: append(values, ']'), Truncated: o.shown() < o.Elements,
		SHA256: hex.EncodeToString(o.SHA256[:]),
	}
}
