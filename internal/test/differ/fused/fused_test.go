package fused

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/differ"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

const (
	recordFile = "../../../../docs/results/fused-multiplications-h200.txt"
	command    = "FERRY_REQUIRE_GPU=1 go test -run TestHardware ./internal/test/differ/fused -update"
)

var (
	update = flag.Bool("update", false, "record the results of hardware")
	record = flag.String("record", recordFile, "the file that -update writes")
)

// configuration is a way to compile the forms.
type configuration struct {
	name, target string
	level        int // of optimisation, -1 for the default
	debug        bool
}

// The results of the first configuration are recorded, and those of unoptimised.
var (
	unoptimised    = configuration{"O0", "sm_90", 0, false}
	configurations = []configuration{
		{"default", "sm_90", -1, false}, {"sm_80", "sm_80", -1, false}, unoptimised, {"O1", "sm_90", 1, false},
		{"O2", "sm_90", 2, false}, {"O3", "sm_90", 3, false}, {"debug", "sm_90", -1, true},
	}
)

func (c configuration) options() *ferry.LoadOptions {
	o := &ferry.LoadOptions{Debug: c.debug}
	if c.level >= 0 {
		o.Optimize = &c.level
	}
	return o
}

// can reports whether the PTX of a type is valid for the target.
func (c configuration) can(t Type) bool {
	return c.target != "sm_80" || !strings.Contains(t.Name, "bf16")
}

func software(t testing.TB) cu.Driver {
	t.Helper()
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run runs forms of one type on a driver. The output is nil for a form that the driver refuses.
func run(t testing.TB, d cu.Driver, c configuration, forms []Form) [][]byte {
	t.Helper()
	out, err := runModule(d, c, forms)
	if err == nil {
		return out
	}
	if len(forms) == 1 {
		t.Logf("%s, %s, %s: %v", c.name, forms[0].Type.Name, forms[0].Name, err)
		return [][]byte{nil}
	}
	half := len(forms) / 2
	return append(run(t, d, c, forms[:half]), run(t, d, c, forms[half:])...)
}

func runModule(d cu.Driver, c configuration, forms []Form) ([][]byte, error) {
	b, err := differ.OpenWith(d, []byte(Module(forms, c.target)), c.options())
	if err != nil {
		return nil, err
	}
	defer b.Close()
	out := make([][]byte, len(forms))
	for i := range forms {
		after, err := b.Run(launch(i), [][]byte{Numbers(forms[i].Type), make([]byte, slots*slotBytes)})
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", forms[i].Name, forms[i].Type.Name, err)
		}
		out[i] = after[1][:len(forms[i].Outputs)*slotBytes]
	}
	return out, nil
}

// The outcomes of a form on hardware.
const (
	rounded = "rounded" // as without optimisation
	joined  = "joined"  // as the software GPU joins
	other   = "other"   // neither: see unfollowed
	same    = "same"    // the software GPU has one result for both
	refused = "refused" // ptxas does not compile it
)

// outcome compares the results of hardware with those of the software GPU, optimised and plain.
func outcome(hard, soft, plain []byte) string {
	switch {
	case hard == nil:
		return refused
	case bytes.Equal(hard, soft) && bytes.Equal(soft, plain):
		return same
	case bytes.Equal(hard, soft):
		return joined
	case bytes.Equal(hard, plain):
		return rounded
	}
	return other
}

// unfollowed is the forms that ptxas joins by a rule that the software GPU does not follow.
var unfollowed = map[string]string{
	"mul pack unpack add":                    "a product through a pair of registers is joined",
	"loop of constant count":                 "the loop is unrolled",
	"loop of constant count, mul before":     "the loop is unrolled",
	"loop of count 100, product carried":     "the loop is unrolled in part",
	"loop of unknown count, product carried": "the loop is unrolled in part",
	"mul neg add; neg stored":                "of .ftz only: the negated product is joined although it is stored, too",
	"product of a sum of constants":          "the product is a constant",
}

// line is a line of the record: a form, its outcome by configuration, and hashes of the results
// of the first configuration and of O0.
func line(f Form, outcomes []string, hard, plain []byte) string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", f.Type.Name, f.Name, strings.Join(outcomes, " "), hash(hard), hash(plain))
}

func hash(b []byte) string {
	if b == nil {
		return "-"
	}
	return differ.Sum(b)
}

// TestHardware runs all forms on this machine's GPU and on the software GPU.
func TestHardware(t *testing.T) {
	gpu, soft := cu.Driver(gputest.Driver(t)), software(t)
	machine, err := differ.MachineOf(gpu, command)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(gpu, 0) // keeps the context, which else would be created for each module
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	lines := head(machine)
	for _, typ := range Types {
		lines = append(lines, compare(t, gpu, soft, typ)...)
	}
	if *update {
		if err := os.WriteFile(*record, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// head returns the first lines of the record.
func head(m differ.Machine) []string {
	var names []string
	for _, c := range configurations {
		names = append(names, c.name)
	}
	return []string{
		"# What ptxas makes of multiplications and additions without a rounding modifier. The forms are in",
		"# internal/test/differ/fused/testdata/forms.txt. joined and rounded: as the software GPU with optimisation, or",
		"# without; same: it has one result for both; other: none of these. Then the hashes of the results of the",
		"# first configuration and of O0.",
		fmt.Sprintf("# %s, driver %s, CUDA %s, %s, commit %s, %s", m.Device, m.Driver, m.CUDA, m.Go, m.Commit, m.Date),
		"# " + m.Command,
		"# type\tform\t" + strings.Join(names, " ") + "\tresults\tresults of O0",
	}
}

// compare compares all forms of one type and returns their lines of the record.
func compare(t *testing.T, gpu, soft cu.Driver, typ Type) []string {
	forms := Forms(typ)
	outcomes, first := make([][]string, len(forms)), configurations[0]
	optimised, plain := run(t, soft, first, forms), run(t, soft, unoptimised, forms)
	var hard, hardPlain [][]byte
	for _, c := range configurations {
		if !c.can(typ) {
			continue
		}
		got, want := run(t, soft, c, forms), run(t, gpu, c, forms)
		for i, f := range forms {
			o := outcome(want[i], optimised[i], plain[i])
			outcomes[i] = append(outcomes[i], o)
			if _, known := unfollowed[f.Name]; !known && want[i] != nil && !bytes.Equal(got[i], want[i]) {
				t.Errorf("%s, %s, %s: %s, differs from the software GPU: %s", c.name, typ.Name, f.Name, o, f.Body)
			}
		}
		switch c.name {
		case first.name:
			hard = want
		case unoptimised.name:
			hardPlain = want
		}
	}
	lines := make([]string, len(forms))
	for i, f := range forms {
		lines[i] = line(f, outcomes[i], hard[i], hardPlain[i])
	}
	return lines
}

// TestRecorded compares the software GPU with the recorded results of hardware.
func TestRecorded(t *testing.T) {
	text, err := os.ReadFile(recordFile)
	if err != nil {
		t.Fatal(err)
	}
	lines, soft, joins := strings.Split(strings.TrimSpace(string(text)), "\n"), software(t), 0
	lines = slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, "#") })
	for _, typ := range Types {
		forms := Forms(typ)
		got, plain := run(t, soft, configurations[0], forms), run(t, soft, unoptimised, forms)
		for i, f := range forms {
			if len(lines) == 0 {
				t.Fatalf("the record ends before %s of %s: record it with: %s", f.Name, typ.Name, command)
			}
			joins += check(t, f, lines[0], hash(got[i]), hash(plain[i]))
			lines = lines[1:]
		}
	}
	if len(lines) > 0 {
		t.Errorf("the record has %d more forms: record it with: %s", len(lines), command)
	}
	if joins < 300 {
		t.Errorf("only %d forms are joined", joins)
	}
}

// check compares the results of one form with its line of the record. It returns 1 if the form
// is joined.
func check(t *testing.T, f Form, line, got, plain string) int {
	part := strings.Split(line, "\t")
	if len(part) != 5 || part[0] != f.Type.Name || part[1] != f.Name {
		t.Fatalf("the record has %q where %s of %s is expected: record it with: %s", line, f.Name, f.Type.Name, command)
	}
	first, _, _ := strings.Cut(part[2], " ")
	_, known := unfollowed[f.Name]
	switch {
	case first == refused:
	case first == other != known && !(known && first != other):
		t.Errorf("%s of %s is %s on hardware, but is listed as unfollowed: %v", f.Name, f.Type.Name, first, known)
	case !known && got != part[3]:
		t.Errorf("%s of %s: hash %s, hardware has %s: %s", f.Name, f.Type.Name, got, part[3], f.Body)
	case plain != part[4]:
		t.Errorf("%s of %s without optimisation: hash %s, hardware has %s: %s", f.Name, f.Type.Name, plain, part[4], f.Body)
	}
	if first == joined {
		return 1
	}
	return 0
}
