package devices

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/gpuid"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// TestParse parses each form that the comment of ferry.Open has, and what is near to one.
func TestParse(t *testing.T) {
	uuid, _ := gpuid.Parse("GPU-8932")
	address, _ := gpuid.Parse("0000:1b:00.0")
	for name, want := range map[string]Name{
		"":                  {Auto: true, Ordinal: -1},
		"cuda":              {Ordinal: -1},
		"cuda:1":            {Ordinal: 1},
		"cuda:GPU-8932":     {Ordinal: -1, ID: uuid},
		"cuda:0000:1b:00.0": {Ordinal: -1, ID: address},
		"soft":              Soft,
		"soft*3":            {Soft: true, Count: 3},
		"soft:h200":         {Soft: true, Count: 1, Profile: "h200"},
		"soft:h200*2":       {Soft: true, Count: 2, Profile: "h200"},
		"soft:dir/my.json":  {Soft: true, Count: 1, Profile: "dir/my.json"},
	} {
		if got, err := Parse(name); got != want || err != nil {
			t.Errorf("%q: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"hard":       "use cuda, cuda:1, soft, soft:",
		"softly":     "use cuda, cuda:1, soft, soft:",
		"cuda:-1":    `"-1" is not a device number`,
		"cuda:65536": `"65536" is not a device number`,
		"soft:":      "no profile after",
		"soft:*2":    "no profile after",
		"soft*0":     "is not a number of devices",
		"soft:h200*": "is not a number of devices",
	} {
		n, err := Parse(name)
		if n != (Name{}) || !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want an error with %q", name, n, err, want)
		}
	}
}

// TestMachine makes the machines that names stand for.
func TestMachine(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.json")
	text, err := os.ReadFile("../../profile/a100.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		profile string
		devices int32
	}{"soft": {"h200", 1}, "soft*2": {"h200", 2}, "soft:fermi-c2050": {"fermi-c2050", 1}, "soft:" + own + "*3": {"a100", 3}} {
		n, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := n.Machine()
		if err == nil {
			err = d.Init(0)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if count, err := d.DeviceGetCount(); d.Profile() != want.profile || count != want.devices || err != nil {
			t.Errorf("%s has the profile %s and %d devices, %v, want %v", name, d.Profile(), count, err, want)
		}
	}
	for name, want := range map[string]error{"": cu.ErrorInvalidValue, "cuda:0": cu.ErrorInvalidValue, "soft:" + own + "x.json": os.ErrNotExist} {
		n, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := n.Machine(); d != nil || !errors.Is(err, want) {
			t.Errorf("%q: got %v, %v, want %v", name, d, err, want)
		}
	}
}

// noDriver is a driver that is not emulated.
type noDriver struct{ cu.Driver }

func TestLabel(t *testing.T) {
	d, err := Soft.Machine()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		d              cu.Driver
		count, ordinal int
		want           string
	}{{noDriver{}, 2, 1, "cuda:1"}, {d, 1, 0, "soft:h200"}, {d, 2, 1, "soft:h200*2 device 1"}} {
		if got := Label(c.d, c.count, c.ordinal); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestVariables runs the tests of a process that has one recording.
func TestVariables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec.json")
	testWrap(t, path)
	testEnvironment(t, path)
}

// testWrap: the environment chooses the wrappers, and their order. A driver has each once.
func testWrap(t *testing.T, recording string) {
	d, err := Soft.Machine()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fault.Variable, trace.Variable, "FERRY_CHECK"} {
		t.Setenv(name, "")
	}
	if w, err := Wrap(d); w != cu.Driver(d) || err != nil {
		t.Errorf("without a variable: %T, %v", w, err)
	}
	t.Setenv(fault.Variable, "cuMemAlloc:1:CUDA_ERROR_OUT_OF_MEMORY")
	t.Setenv(trace.Variable, recording)
	t.Setenv("FERRY_CHECK", "memory")
	w, err := Wrap(d)
	if err != nil {
		t.Fatal(err)
	}
	outer, ok := w.(*check.Driver)
	if !ok {
		t.Fatalf("the outermost wrapper is %T, want check's", w)
	}
	middle, ok := outer.Unwrap().(*trace.Driver)
	if !ok {
		t.Fatalf("the wrapper in the middle is %T, want trace's", outer.Unwrap())
	}
	inner, ok := middle.Unwrap().(*fault.Driver)
	if !ok || inner.Unwrap() != cu.Driver(d) {
		t.Errorf("the innermost wrapper is %T, want fault's", middle.Unwrap())
	}
	if again, err := Wrap(d); again != w || err != nil {
		t.Errorf("the same driver has another wrapper, %v", err)
	}
	t.Setenv("FERRY_CHECK", "everything")
	if w, err := Wrap(new(softgpu.Driver)); w != nil || !errors.Is(err, cu.ErrorInvalidValue) {
		t.Errorf("a check that there is not: %v, %v", w, err)
	}
}

// testEnvironment: FERRY_DEVICE chooses the software machine, and the other variables wrap it. End
// completes the recording.
func testEnvironment(t *testing.T, recording string) {
	t.Setenv(fault.Variable, "")
	t.Setenv("FERRY_CHECK", "")
	t.Setenv(trace.Variable, recording)
	for name, want := range map[string]int32{"": 1, "soft:h200*3": 3} {
		t.Setenv("FERRY_DEVICE", name)
		d, err := Environment()
		if err == nil {
			err = d.Init(0)
		}
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if got, err := d.DeviceGetCount(); got != want || err != nil {
			t.Errorf("%q: %d devices, %v, want %d", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"cuda:0":  `open FERRY_DEVICE="cuda:0": this libcuda.so.1 is the software GPU`,
		"hard":    `open FERRY_DEVICE="hard": no such device`,
		"soft:no": `open FERRY_DEVICE="soft:no": `,
	} {
		t.Setenv("FERRY_DEVICE", name)
		if d, err := Environment(); d != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want %q", name, d, err, want)
		}
	}
	End()
	rec, err := trace.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(recording)
	if end := `{"end":`; len(rec.Calls) != 4 || err != nil || strings.Count(string(text), end) != 1 {
		t.Errorf("the recording has %d calls, %v, want 4 and its end:\n%s", len(rec.Calls), err, text)
	}
}

// TestVisible: CUDA_VISIBLE_DEVICES leaves the devices before the first wrong name, in its order. The results
// are those of two H200s with driver 580.159.04.
func TestVisible(t *testing.T) {
	t.Setenv("FERRY_DEVICE", "soft:h200*3")
	t.Setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
	u := uuidsOf(t)
	for _, c := range []struct {
		list string
		want []int
	}{
		{"0", []int{0}}, {"1,0", []int{1, 0}}, {" 2 , 1", []int{2, 1}}, {"0,1,2", []int{0, 1, 2}}, {"0,3,1", []int{0}}, {"0,,1", []int{0}},
		{"00", []int{0}}, {"+1", []int{1}}, {"1x", []int{1}}, {"0x1", []int{0}}, {"1.5,2", []int{1, 2}}, {"1;2", []int{1}}, {"0,-1,1", []int{0}},
		{"-1", nil}, {"", nil}, {",0", nil}, {"x", nil}, {"all", nil}, {"9,0", nil}, {"0," + u[1], []int{0}},
		{u[1], []int{1}}, {u[2] + "," + u[0], []int{2, 0}}, {u[2][:12] + "," + u[1][:8], []int{2, 1}}, {u[0] + ",1", []int{0}},
		{strings.ToUpper(u[1]), []int{1}}, {strings.ReplaceAll(u[1], "-", "")[3:], nil}, {"GPU-" + strings.ReplaceAll(u[1][4:], "-", ""), []int{1}},
		{u[1] + "0", []int{1}}, {u[1] + "/0/0", []int{1}}, {u[1][:13], []int{1}}, {u[1][:12] + "x", nil}, {u[1][4:], nil},
		{"GPU-", nil}, {"GPU", nil}, {"gpu-" + u[0][4:], nil}, {" " + u[0], nil}, {u[0] + ",GPU-ffffffff," + u[1], []int{0}}, {"GPU-ffffffff," + u[0], nil},
		{"MIG-" + u[0] + "/0/0", nil}, {"0,MIG-" + u[0] + "/0/0", []int{0}},
	} {
		t.Setenv("CUDA_VISIBLE_DEVICES", c.list)
		d, err := Environment()
		if len(c.want) == 0 {
			if !errors.Is(err, cu.ErrorNoDevice) {
				t.Errorf("%q: error %v, want %v", c.list, err, cu.ErrorNoDevice)
			}
			continue
		}
		if err != nil || d == nil {
			t.Fatalf("%q: %v", c.list, err)
		}
		var want []string
		for _, place := range c.want {
			want = append(want, u[place])
		}
		if got := uuidsOf(t); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q, places %v", c.list, got, want, c.want)
		}
	}
	for _, twice := range []string{"1,1", "0,1,0", u[0] + "," + u[0]} {
		t.Setenv("CUDA_VISIBLE_DEVICES", twice)
		if _, err := Environment(); !errors.Is(err, cu.ErrorInvalidDevice) {
			t.Errorf("%q: error %v, want %v", twice, err, cu.ErrorInvalidDevice)
		}
	}
	t.Setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
	if _, err := Environment(); err == nil || !strings.Contains(err.Error(), "hides all devices: the software GPU has no MIG instances") {
		t.Errorf("the name of a MIG instance: %v", err)
	}
}

// uuidsOf opens the driver of the environment and returns the UUIDs of its devices.
func uuidsOf(t *testing.T) (all []string) {
	t.Helper()
	d, err := Environment()
	if err == nil {
		err = d.Init(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	n, err := d.DeviceGetCount()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		u, err := d.DeviceGetUuid(cu.Device(i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
	}
	return all
}
