package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/measure/info"
)

func result(t *testing.T, words ...string) *Result {
	t.Helper()
	profile := "mine"
	r := &Result{
		Device: info.Device{Name: "Some GPU", Opened: "soft:mine", Emulated: true, Profile: &profile},
		Kernel: "k", Grid: cu.Dim3{X: 4, Y: 2, Z: 1}, Block: cu.Dim3{X: 256, Y: 1, Z: 1},
		Wall: 1500 * time.Microsecond, DeviceTime: 2300, Threads: 2048,
	}
	for i, a := range parseArgs(t, words...) {
		data := load(t, a, 0, i)
		c := newCollector(i, &a, len(data))
		c.add(data[:1])
		c.add(data[1:])
		out, err := c.output()
		if err != nil {
			t.Fatal(err)
		}
		r.Outputs = append(r.Outputs, out)
	}
	return r
}

func TestResultJSON(t *testing.T) {
	r := result(t, "inout:f32=1,-0.5,nan,-inf", "inout:s16=-1,7")
	text, err := r.JSON(false)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte{0xff, 0xff, 7, 0})
	for _, want := range []string{
		`{"schema":"ferry.run/1","device":{"name":"Some GPU","opened":"soft:mine","emulated":true,"profile":"mine"},"kernel":"k","grid":[4,2,1],"block":[256,1,1]`,
		`{"arg":0,"type":"f32","elements":4,"values":[1,-0.5,"NaN","-Inf"],"truncated":false,"sha256":"`,
		`{"arg":1,"type":"s16","elements":2,"values":[-1,7],"truncated":false,"sha256":"` + hex.EncodeToString(sum[:]) + `"}`,
		`"wall_ns":1500000,"device_ns":2300,"device_ns_predicted":true,"threads":2048,"launch_threads_per_s":`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	}
	text, err = r.JSON(true)
	if err != nil || !strings.Contains(string(text), `"values":["0x3f800000","0xbf000000","0x7fc00000","0xff800000"]`) {
		t.Errorf("bits: got %s, %v", text, err)
	}
}

// TestResultIsCut checks that a result has at most 65536 values of an output, and the
// hash of all.
func TestResultIsCut(t *testing.T) {
	for n, cut := range map[int]bool{65536: false, 65537: true} {
		r := result(t, fmt.Sprintf("in:u32=iota[%d]", n))
		text, err := r.JSON(false)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Outputs []struct {
				Values    []uint32
				Truncated bool
				Elements  int
				SHA256    string
			}
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		o := doc.Outputs[0]
		if len(o.Values) != 65536 || o.Values[65535] != 65535 || o.Truncated != cut || o.Elements != n {
			t.Errorf("%d: %d values, truncated %v, elements %d", n, len(o.Values), o.Truncated, o.Elements)
		}
		a := parseArgs(t, fmt.Sprintf("in:u32=iota[%d]", n))[0]
		if sum := sha256.Sum256(load(t, a, 0, 0)); o.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%d: sha256 %s", n, o.SHA256)
		}
	}
}

func TestResultText(t *testing.T) {
	text := result(t, "inout:f32=iota[10]", "inout:b8=1,255", "in:u8=iota[1000]").Page(false).Text(0)
	for _, want := range []string{
		"device: soft:mine, emulated: times are predicted (profile mine: Some GPU)\n\nkernel k, grid 4,2, block 256, buffers in device memory\n",
		"parameter 0, inout:f32=iota[10]: 10 elements\n  [0]  0  1  2  3  4  5  6  7  8  9\n",
		"parameter 1, inout:b8=1,255: 2 elements\n  [0]  0x01  0xff\n",
		"\n  and 936 more (--json has the first 65536)\n",
		"wall time    1.500 ms     from launch to completion on this host, measured\n",
		"device time  2.300 us     of the kernel, predicted from profile mine\n",
		"threads      2048         1.37 M threads/s of wall time\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q", text, want)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if !strings.Contains(result(t, "inout:f32=1,2").Page(true).Text(0), "[0]  0x3f800000  0x40000000\n") {
		t.Error("bits are not shown")
	}
}
