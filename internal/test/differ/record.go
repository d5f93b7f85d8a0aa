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

// Record has the results of the table's kernels on hardware.
type Record struct {
	Schema string `json:"schema"`
	Machine
	Seed    uint64   `json:"seed"`  // the seed of the recorded outputs
	Fresh   []uint64 `json:"fresh"` // more seeds, with which both drivers were compared in that run
	Results []Result `json:"results"`
}

// Result is the result of one kernel in the PTX of one target.
type Result struct {
	Family   string   `json:"family"`
	Kernel   string   `json:"kernel"`
	Target   string   `json:"target"`
	PTX      string   `json:"ptx"`             // the start of the SHA-256 of the module
	Compared int      `json:"compared"`        // elements, over all seeds
	Equal    bool     `json:"equal"`           // the bits are equal, or the values within the bound
	Wrong    string   `json:"wrong,omitempty"` // the last difference outside of the bound
	Outputs  []Output `json:"outputs"`
}

// Output is a buffer after the launch. It has the values if the kernel has a bound, else
// only their hash.
type Output struct {
	Arg    int    `json:"arg"`
	SHA256 string `json:"sha256,omitempty"`
	Values []byte `json:"values,omitempty"` // little-endian
}

// Outputs returns a record of buffers.
func Outputs(c *Case, buffers [][]byte) []Output {
	var all []Output
	for i, a := range c.Args {
		if a.Value != nil || a.Input {
			continue
		}
		o := Output{Arg: i}
		if a.Type >= F16 && !c.Bound.Exact() {
			o.Values = bytes.Clone(buffers[i])
		} else {
			o.SHA256 = Sum(buffers[i])
		}
		all = append(all, o)
	}
	return all
}

// Sum returns the first 12 bytes of the SHA-256 of b, in hexadecimal.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:12])
}

// Check compares buffers with the recorded ones.
func (r *Result) Check(c *Case, got [][]byte) error {
	for _, o := range r.Outputs {
		if o.Arg >= len(got) {
			return fmt.Errorf("%s: the record has argument %d, but the case has %d arguments", c.Kernel, o.Arg, len(got))
		}
		b := got[o.Arg]
		switch {
		case o.Values == nil && Sum(b) != o.SHA256:
			return fmt.Errorf("%s, argument %d: hash %s, recorded %s", c.Kernel, o.Arg, Sum(b), o.SHA256)
		case o.Values != nil && len(o.Values) != len(b):
			return fmt.Errorf("%s, argument %d: %d bytes, recorded %d", c.Kernel, o.Arg, len(b), len(o.Values))
		case o.Values != nil && c.Bound.Exact():
			if !bytes.Equal(b, o.Values) {
				return unequal(c, o.Arg, b, o.Values)
			}
		case o.Values != nil:
			if err := within(c.Args[o.Arg].Type, c.Bound, b, o.Values); err != nil {
				return fmt.Errorf("%s, argument %d, %w", c.Kernel, o.Arg, err)
			}
		}
	}
	return nil
}

// ReadJSON reads a record that [WriteJSON] wrote.
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
