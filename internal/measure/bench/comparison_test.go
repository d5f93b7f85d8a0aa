package bench

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/measure/info"
)

// table returns a comparison with the given medians in nanoseconds. Sizes begin at 2^10.
// Medians are in the order of the kinds; 0 is a missing kind.
func table(rows ...[kindCount]int64) *Comparison {
	profile := "mine"
	c := &Comparison{Device: info.Device{Name: "Some GPU", Opened: "soft:mine", Emulated: true, Profile: &profile}}
	for i, medians := range rows {
		r := Row{Elements: 1 << (10 + i), Verified: true}
		for k, ns := range medians {
			if ns > 0 {
				r.Points[k] = &Point{Samples: 1, Median: time.Duration(ns), P5: time.Duration(ns), P95: time.Duration(ns)}
			}
		}
		c.Rows = append(c.Rows, r)
	}
	return c
}

func TestTimeText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1000: "1.00 us", 1234: "1.23 us", 9994: "9.99 us", 9995: "10.0 us",
		99949: "99.9 us", 99950: "100 us", 999499: "999 us", 999500: "1.00 ms",
		80397 * time.Microsecond: "80.4 ms", 12 * time.Second: "12.0 s",
	} {
		if got := timeText(d); got != want {
			t.Errorf("%d: got %q, want %q", d, got, want)
		}
	}
}

func TestText(t *testing.T) {
	c := table(
		[kindCount]int64{29000, 19000, 19500, 11500, 18000, 0, 0, 10100},
		[kindCount]int64{929000, 252000, 253000, 252000, 300000, 0, 0, 12200},
	)
	text := c.Page(false).Text(0)
	for _, want := range []string{
		"device: soft:mine, emulated: times are predicted (profile mine: Some GPU)\n",
		"  2^10  29.0 us  19.0 us  19.5 us  *11.5 us   18.0 us        -        -  10.1 us\n",
		"  2^11   929 us  *252 us   253 us    252 us    300 us        -        -  12.2 us\n",
		"zero-copy is best at 2^10\npinned is best at 2^11\npinned beats pageable at every size\nzero-copy beats pinned up to 2^10\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if strings.Contains(text, "managed prefetched beats") {
		t.Errorf("the text compares missing kinds:\n%s", text)
	}
	if strings.Contains(text, "\x1b") || !strings.Contains(c.Page(true).Text(0), colourOn+"*252 us"+colourOff) {
		t.Error("the best kind is not coloured, or is coloured without being asked")
	}
	c.Rows[1].Verified = false
	if !strings.Contains(c.Page(false).Text(0), "12.2 us WRONG RESULTS\n") {
		t.Error("wrong results are not shown")
	}
}

func TestBeats(t *testing.T) {
	for _, c := range []struct {
		pinned []int64 // pageable is always 100
		want   string
	}{
		{[]int64{1, 2}, "pinned beats pageable at every size"},
		{[]int64{100, 101}, "pinned beats pageable at no size"},
		{[]int64{101, 1, 1}, "pinned beats pageable from 2^11 on"},
		{[]int64{1, 101, 101}, "pinned beats pageable up to 2^10"},
		{[]int64{1, 101, 1}, "pinned beats pageable from 2^12 on, and at some sizes below"},
		{[]int64{101, 1, 101, 101}, "pinned beats pageable at some sizes up to 2^11"},
		{nil, ""},
		{[]int64{0}, ""},
	} {
		var rows [][kindCount]int64
		for _, ns := range c.pinned {
			rows = append(rows, [kindCount]int64{Pageable: 100, Pinned: ns})
		}
		if got := table(rows...).beats(Pinned, Pageable); got != c.want {
			t.Errorf("%v: got %q, want %q", c.pinned, got, c.want)
		}
	}
}

func TestFootnote(t *testing.T) {
	c := table([kindCount]int64{1000, 2000})
	c.Device.Emulated = false
	c.Rows[0].Points[0].Samples = 30
	c.Rows[0].Points[0].MAD = 25
	if got, want := c.footnote(), "Medians of 1 to 30 samples a point. Every result was verified.\nThe median absolute deviation is at most 2.5 % (pageable, 2^10)."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestJSON checks the keys of the document and their order, and null for a missing kind.
func TestJSON(t *testing.T) {
	c := table([kindCount]int64{1, 2, 3, 4, 5, 0, 7, 8})
	text, err := c.JSON()
	if err != nil || !json.Valid(text) {
		t.Fatal(err, string(text))
	}
	want := `{"schema":"ferry.compare/1","device":{"name":"Some GPU","opened":"soft:mine","emulated":true,"profile":"mine"},"predicted":true,` +
		`"rows":[{"elements":1024,"bytes":4096,"pageable_ns":1,"pinned_ns":2,"write_combined_ns":3,"zero_copy_ns":4,"zero_copy_in_ns":5,` +
		`"managed_ns":null,"managed_prefetched_ns":7,"kernel_ns":8,"verified":true,"samples":{`
	if !strings.HasPrefix(string(text), want) {
		t.Errorf("got  %s\nwant %s...", text, want)
	}
	empty, err := (&Comparison{}).JSON()
	if err != nil || !strings.Contains(string(empty), `"rows":[]`) || !strings.Contains(string(empty), `"profile":null`) {
		t.Errorf("got %s, %v", empty, err)
	}
}
