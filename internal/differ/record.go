package differ

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// Schema is the version of [Record] as JSON.
const Schema = "ferry.differential/1"

// Record is what the table's kernels did on hardware.
type Record struct {
	Schema string `json:"schema"`
	Machine
	Seed    uint64   `json:"seed"`  // of the inputs of the outputs recorded
	Fresh   []uint64 `json:"fresh"` // further seeds, for which both drivers were compared in that run
	Results []Result `json:"results"`
}

// Result is one kernel as one compiler made it.
type Result struct {
	Family   string   `json:"family"`
	Kernel   string   `json:"kernel"`
	Target   string   `json:"target"`
	PTX      string   `json:"ptx"`             // the start of the SHA-256 of the module
	Compared int      `json:"compared"`        // elements, over all seeds
	Equal    bool     `json:"equal"`           // bit for bit, or within the bound
	ULP      float64  `json:"ulp,omitempty"`   // the largest difference found
	Wrong    string   `json:"wrong,omitempty"` // what differed
	Outputs  []Output `json:"outputs"`
}

// Output is a buffer after the launch: its values where the kernel has a bound,
// else their hash alone.
type Output struct {
	Arg    int    `json:"arg"`
	SHA256 string `json:"sha256,omitempty"`
	Values []byte `json:"values,omitempty"` // little-endian
}

// Outputs makes a record of buffers.
func Outputs(c *Case, target string, buffers [][]byte) []Output {
	var all []Output
	for i, a := range c.Args {
		if a.Value != nil || a.Input {
			continue
		}
		o := Output{Arg: i}
		if a.Type >= F16 && !c.BoundOn(target).Exact() {
			o.Values = bytes.Clone(buffers[i])
		} else {
			o.SHA256 = Sum(buffers[i])
		}
		all = append(all, o)
	}
	return all
}

// Sum is the start of the SHA-256 of b, in hex.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:12])
}

// Check compares buffers with what was recorded.
func (r *Result) Check(c *Case, got [][]byte) error {
	for _, o := range r.Outputs {
		if o.Arg >= len(got) {
			return fmt.Errorf("%s: argument %d was recorded, there are %d: the record is of another table", c.Kernel, o.Arg, len(got))
		}
		b := got[o.Arg]
		switch {
		case o.Values == nil && Sum(b) != o.SHA256:
			return fmt.Errorf("%s, argument %d: hash %s, recorded %s", c.Kernel, o.Arg, Sum(b), o.SHA256)
		case o.Values != nil && len(o.Values) != len(b):
			return fmt.Errorf("%s, argument %d: %d bytes, recorded %d", c.Kernel, o.Arg, len(b), len(o.Values))
		case o.Values != nil:
			if _, err := within(c.Args[o.Arg].Type, c.BoundOn(r.Target), b, o.Values); err != nil {
				return fmt.Errorf("%s, argument %d, %w", c.Kernel, o.Arg, err)
			}
		}
	}
	return nil
}

// ReadJSON reads what [WriteJSON] wrote.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// WriteJSON writes a record.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
