package mathtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/differ"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

const (
	hardwareFile    = "../../../docs/results/math-h200.json"
	hardwareCommand = "FERRY_REQUIRE_GPU=1 go test -run TestHardware ./internal/test/mathtest -update"
	hardwarePoints  = 20000 // random arguments of each function
)

// hardwareRecord is a comparison of a GPU with the software GPU.
type hardwareRecord struct {
	Machine differ.Machine `json:"machine"`
	// Functions counts functions of each type, Values their results.
	Functions int `json:"functions"`
	Values    int `json:"values"`
	// Different counts results whose bits differ, by function.
	Different map[string]int `json:"different"`
	// Bits has the hashes of the results of the GPU for the arguments of the normal test.
	Bits map[string]string `json:"bits"`
	// Approximate has the largest distance in ulp of float intrinsics from the software GPU,
	// of finite results.
	Approximate map[string]float64 `json:"approximate"`
}

// TestHardware runs the committed PTX on this machine's GPU and on the software GPU, and
// compares all bits. It needs no compiler. With -update it writes the record.
func TestHardware(t *testing.T) {
	driver := gputest.Driver(t)
	r := hardwareRecord{Different: map[string]int{}, Bits: map[string]string{}, Approximate: map[string]float64{}}
	var err error
	if r.Machine, err = differ.MachineOf(driver, hardwareCommand); err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ptx := committedPTX(t)
	hard, soft := newDevice(t, g, ptx), newSoft(t, ptx)
	for i := range functions {
		for _, k := range kinds {
			if !functions[i].floatOnly || k.size == 32 {
				wrong, err := r.compare(hard, soft, &functions[i], k, hardwarePoints)
				if err != nil {
					t.Fatal(err)
				}
				for _, text := range wrong {
					t.Error(text)
				}
			}
		}
	}
	t.Logf("%d functions, %d values, different %v, approximate %v", r.Functions, r.Values, r.Different, r.Approximate)
	if !*update {
		return
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hardwareFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compare runs a function on both devices, and returns the first differences.
func (r *hardwareRecord) compare(hard, soft *device, f *function, k *kind, points int) (wrong []string, err error) {
	name := f.name + k.suffix
	args := arguments(f, k, points)
	got, err := hard.run(f, k, args)
	if err != nil {
		return nil, fmt.Errorf("%s on the GPU: %w", name, err)
	}
	want, err := soft.run(f, k, args)
	if err != nil {
		return nil, fmt.Errorf("%s on the software GPU: %w", name, err)
	}
	if f.approximate {
		for i := range got {
			r.Approximate[name] = max(r.Approximate[name], apart(k, got[i], want[i]))
		}
		return nil, nil
	}
	r.Functions++
	r.Values += len(got)
	r.Bits[name] = sum(got[:len(arguments(f, k, fewPoints)[0])])
	for i := range got {
		if got[i] == want[i] {
			continue
		}
		if r.Different[name]++; r.Different[name] <= 3 {
			wrong = append(wrong, fmt.Sprintf("%s(%v, %v, %v) = %#x on the GPU, %#x on the software GPU", name, args[0][i], args[1][i], args[2][i], got[i], want[i]))
		}
	}
	return wrong, nil
}

// TestCompareFindsABit compares two software GPUs. One has a PTX in which the last bit of
// a coefficient of expf is another.
func TestCompareFindsABit(t *testing.T) {
	ptx := committedPTX(t)
	entry := bytes.Index(ptx, []byte(".entry test_expf("))
	constant := bytes.Index(ptx[entry:], []byte("0f3F000000")) // 1/2
	if entry < 0 || constant < 0 {
		t.Fatal("the PTX of expf has no coefficient 1/2")
	}
	changed := bytes.Clone(ptx)
	changed[entry+constant+len("0f3F000000")-1] = '1'
	right, wrong := newSoft(t, ptx), newSoft(t, changed)
	for i := range functions {
		f := &functions[i]
		if f.name != "exp" && f.name != "exp2" {
			continue
		}
		r := hardwareRecord{Different: map[string]int{}, Bits: map[string]string{}}
		text, err := r.compare(wrong, right, f, kinds[0], fewPoints)
		if err != nil {
			t.Fatal(err)
		}
		if found := r.Different[f.name+"f"] > 0 && len(text) > 0; found != (f.name == "exp") {
			t.Errorf("%sf: %d differences %q", f.name, r.Different[f.name+"f"], text)
		}
	}
}

// apart returns the distance of two finite results in ulp of the second.
func apart(k *kind, a, b uint64) float64 {
	x, y := k.from(a), k.from(b)
	if !finite([]float64{x, y}) || y == 0 {
		return 0
	}
	_, e := math.Frexp(y)
	return math.Abs(x-y) / math.Ldexp(1, max(e-1, k.emin)-k.digits+1)
}

// TestRecordedBits compares the record of hardware with that of the software GPU. Where it
// has another hash, the function changed since and needs hardware again.
func TestRecordedBits(t *testing.T) {
	text, err := os.ReadFile(hardwareFile)
	if os.IsNotExist(err) {
		t.Skip("no record of hardware yet: ", hardwareCommand)
	}
	if err != nil {
		t.Fatal(err)
	}
	var r hardwareRecord
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for name, soft := range readRecord(t) {
		if bits, ok := r.Bits[name]; ok && bits != soft.Bits {
			t.Errorf("%s: the GPU had bits %s, the software GPU has %s; record the hardware again: %s", name, bits, soft.Bits, hardwareCommand)
		}
	}
}
