package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/info"
)

// Schema is the version of the document that [Result.JSON] makes.
const Schema = "ferry.run/1"

// maxValues is how many elements of an output are kept to be shown.
const maxValues = 65536

// Result is what a launch did.
type Result struct {
	Device      info.Device
	Kernel      string
	Grid, Block cu.Dim3
	Shared      int // bytes of dynamic shared memory
	Memory      Memory
	Seed        uint64
	Outputs     []Output
	Warnings    []string

	Wall       time.Duration // from the launch until the host knows that it is done, on this host's clock
	DeviceTime time.Duration // between events around the kernel; of the virtual clock where Device.Emulated
	Threads    uint64        // launched
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

// newOutput takes what is needed of the bytes.
func newOutput(arg int, a *Arg, data []byte) Output {
	n := len(data) / a.Type.Size()
	head := data[:min(n, maxValues)*a.Type.Size()]
	return Output{
		Arg: arg, Text: a.Text, Type: a.Type, Elements: n,
		SHA256: sha256.Sum256(data),
		head:   append([]byte(nil), head...),
	}
}

// shown is how many elements there are to show.
func (o *Output) shown() int { return len(o.head) / o.Type.Size() }

// ThreadsPerSecond is the threads by the wall time of the launch.
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
	Wall                int64        `json:"wall_ns"`
	DeviceTime          int64        `json:"device_ns"`
	DeviceTimePredicted bool         `json:"device_ns_predicted"`
	Threads             uint64       `json:"threads"`
	ThreadsPerSecond    float64      `json:"launch_threads_per_s"`
}

type outputJSON struct {
	Arg       int             `json:"arg"`
	Type      string          `json:"type"`
	Elements  int             `json:"elements"`
	Values    json.RawMessage `json:"values"`
	Truncated bool            `json:"truncated"`
	SHA256    string          `json:"sha256"`
}

// JSON is the result as one document; with bits, values are the patterns of
// their bits, as in "0x3f800000".
func (r *Result) JSON(bits bool) ([]byte, error) {
	doc := resultJSON{
		Schema: Schema, Device: r.Device, Kernel: r.Kernel,
		Grid: [3]uint32{r.Grid.X, r.Grid.Y, r.Grid.Z}, Block: [3]uint32{r.Block.X, r.Block.Y, r.Block.Z},
		Shared: r.Shared, Memory: r.Memory.String(), Seed: r.Seed, Outputs: []outputJSON{},
		Wall: r.Wall.Nanoseconds(), DeviceTime: r.DeviceTime.Nanoseconds(), DeviceTimePredicted: r.Device.Emulated,
		Threads: r.Threads, ThreadsPerSecond: r.ThreadsPerSecond(),
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
		v := element(o.head, o.Type, i)
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
