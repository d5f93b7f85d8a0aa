package sfu_test

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/differ"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu/internal/sfu"
)

var (
	update = flag.Bool("update", false, "write the tables and the record of hardware")
	raw    = flag.String("raw", "", "a folder for the results from which no table was recovered")
)

const (
	tablesFile = "tables.txt"
	recordFile = "../../../docs/results/sfu-h200.json"
	command    = "FERRY_REQUIRE_GPU=1 go test -timeout 30m -run TestHardware ./softgpu/internal/sfu -update"
)

// record is a comparison of all forms with a GPU.
type record struct {
	Machine differ.Machine `json:"machine"`
	// Unknown has the tables that were not recovered, and why.
	Unknown map[string]string `json:"unknown,omitempty"`
	Forms   []comparison      `json:"forms"`
}

// TestHardware recovers the tables from results of this machine's GPU. Then it compares
// all results of all forms of one operand with the software, and 2**30 of the others. With
// -update it writes the tables and the record.
func TestHardware(t *testing.T) {
	driver := gputest.Driver(t)
	var r record
	var err error
	if r.Machine, err = differ.MachineOf(driver, command); err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	d := newDevice(t, g, forms(), batch)
	r.recover(t, d)
	for i, f := range forms() { // with the recovered tables
		start := time.Now()
		c := comparison{Form: f.name, Inputs: f.inputs}
		for first := uint64(0); first < f.inputs; first += batch {
			n := int(min(batch, f.inputs-first))
			got, err := d.run(i, first, n)
			if err != nil {
				t.Fatal(err)
			}
			c.add(&f, first, n, got)
		}
		if r.Forms = append(r.Forms, c); c.Different > 0 {
			t.Errorf("%s: %d of %d differ, by up to %d; %q", c.Form, c.Different, c.Inputs, c.ULP, c.Examples)
		}
		t.Logf("%s: %d of %d differ, in %v", c.Form, c.Different, c.Inputs, time.Since(start))
		r.write(t)
	}
}

// recover finds the tables from the GPU, and uses them from then on.
func (r *record) recover(t *testing.T, d *device) {
	start := time.Now()
	found, errs := recoverTables(d.source())
	t.Logf("%d tables in %v", len(found), time.Since(start))
	all := maps.Clone(sfu.Loaded())
	maps.Copy(all, found)
	r.Unknown = map[string]string{}
	for name, err := range errs {
		r.Unknown[name] = err.Error()
		t.Errorf("%s: %v", name, err)
		if *raw != "" {
			if err := writeRaw(d.source(), name); err != nil {
				t.Error(err)
			}
		}
	}
	sfu.SetTables(all)
	if !*update {
		return
	}
	text := fmt.Appendf(nil, `# The coefficients of the special function unit: each row has those of 1, x and the square
# of x for one interval of the argument. A line of one word names the function of the
# rows below it. See the comment of table.at for the scale.
#
# They give all results of an %s, driver %s (commit %s).
# %s
`, r.Machine.Device, r.Machine.Driver, r.Machine.Commit, command)
	names := []string{"rcp", "rsqrt", "sqrt", "lg2", "ex2", "sin"}
	for exp := sfu.TanhLow; exp < sfu.TanhHigh; exp++ {
		names = append(names, sfu.TanhName(exp))
	}
	for _, name := range names {
		if rows := found[name]; rows != nil {
			text = sfu.Append(text, name, rows)
		} else if rows := all[name]; rows != nil {
			text = append(text, "# the next is not of this GPU: "+name+"\n"...)
			text = sfu.Append(text, name, rows)
		}
	}
	if err := os.WriteFile(tablesFile, text, 0o644); err != nil {
		t.Error(err)
	}
}

// source returns results of the GPU.
func (d *device) source() source {
	return func(name string, first uint32, n int) ([]uint32, error) {
		for i, f := range d.list {
			if f.name == name {
				return d.run(i, uint64(first), n)
			}
		}
		return nil, fmt.Errorf("no form %s", name)
	}
}

// writeRaw writes the results that belong to a table: the first, and then the difference
// of each to the one before, as varints.
func writeRaw(from source, name string) error {
	form, first, n := name+".approx.ftz.f32", uint32(0x3f800000), 1<<24
	if strings.HasPrefix(name, "tanh") {
		var exp int
		if _, err := fmt.Sscanf(name, "tanh%d", &exp); err != nil {
			return err
		}
		form, first, n = "tanh.approx.f32", uint32(127+exp)<<23, 1<<23
	}
	results, err := from(form, first, n)
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(*raw, name+".gz"))
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(file)
	var b []byte
	var last uint32
	for _, r := range results {
		b, last = binary.AppendVarint(b, int64(r)-int64(last)), r
	}
	_, err = zip.Write(b)
	return errors.Join(err, zip.Close(), file.Close())
}

func (r *record) write(t *testing.T) {
	if !*update {
		return
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(recordFile, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRecorded compares the functions in Go with the recorded hashes: one chunk of each
// form, another one each time.
func TestRecorded(t *testing.T) {
	text, err := os.ReadFile(recordFile)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no results of hardware are recorded: " + command)
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]form{}
	for _, f := range forms() {
		byName[f.name] = f
	}
	for _, want := range sample.Of(t, r.Forms, 5) {
		f, ok := byName[want.Form]
		if !ok || f.inputs != want.Inputs {
			t.Errorf("%s: not as recorded", want.Form)
			continue
		}
		if want.Different > 0 {
			continue // its chunks may differ, and the record says so
		}
		i := rand.IntN(len(want.Hashes))
		var got comparison
		first := uint64(i) * chunkSize
		got.add(&f, first, int(min(chunkSize, f.inputs-first)), nil)
		if got.Hashes[0] != want.Hashes[i] {
			t.Errorf("%s: the results from number %#x on differ from the GPU", f.name, first)
		}
	}
}
