package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	performancePath = "docs/PERFORMANCE.md"
	maxFigures      = 10 // in the README
	maxPerformance  = 150
)

// measured are the figures of a text: numbers with a unit.
var measured = regexp.MustCompile(`\d[\d.,]*(?: [kM])? ?(?:GB/s|MB/s|us|ns|ms|%|requests)`)

// TestReadmeFigures: the README has at most ten figures. Each is in its table, and equal to the
// row of PERFORMANCE that has the same name.
func TestReadmeFigures(t *testing.T) {
	_, readme := readDocument(t, "README.md")
	_, performance := readDocument(t, performancePath)
	for _, fault := range figureFaults(readme, performance) {
		t.Error(fault)
	}
}

// figureFaults returns what is wrong with the figures of the README.
func figureFaults(readme, performance string) (faults []string) {
	readme = withoutCode(readme)
	want := figureRows(section(performance, "## What is reached"))
	compared := 0
	for name, row := range figureRows(section(readme, "## What it costs")) {
		p, ok := want[name]
		if !ok {
			faults = append(faults, fmt.Sprintf("PERFORMANCE has no row %q", name))
			continue
		}
		_, unit, _ := strings.Cut(p[0], " ")
		if peer := p[1] + " " + unit; row[0] != p[0] || row[1] != peer {
			faults = append(faults, fmt.Sprintf("%q has %s and %s, PERFORMANCE has %s and %s", name, row[0], row[1], p[0], peer))
		}
		compared += 2
	}
	all := measured.FindAllString(readme, -1)
	if compared == 0 || len(all) != compared || len(all) > maxFigures {
		faults = append(faults, fmt.Sprintf("%d figures, %d of them in the table; want at most %d, all in the table: %q",
			len(all), compared, maxFigures, all))
	}
	return faults
}

// section returns a part of a document, from its heading to the next.
func section(text, title string) string {
	_, text, _ = strings.Cut(text, title+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// figureRows returns the figures of Ferry, of the peer and the ratios in the rows of a table. A
// mark of where a row is from does not belong to its name.
func figureRows(text string) map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) < 3 || !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what ") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[strings.TrimSuffix(cells[0], " (calls)")] = cells[1:]
	}
	return rows
}

// speedRow is a row of a result of internal/measure/bench/speed.
type speedRow struct {
	What  string  `json:"what"`
	Unit  string  `json:"unit"`
	Ferry float64 `json:"ferry"`
	Name  string  `json:"peer_name"`
	Peer  float64 `json:"peer"`
	Ratio float64 `json:"ratio"`
}

// speedNames are the rows of PERFORMANCE that three runs have, with their names and peers there.
var speedNames = map[string][2]string{
	"kernel reads host memory":                                               {"kernel copy reads host memory, 1 GiB", "C"},
	"kernel writes host memory":                                              {"kernel copy writes host memory, 1 GiB", "C"},
	"pageable slice of 256 MiB in, beside page-locked memory":                {"plain slice in, 268435456 bytes, 4k pages", "page-locked"},
	"pageable slice of 256 MiB in, beside the best ring in C":                {"plain slice in, 268435456 bytes, 4k pages", "ring"},
	"pageable slice of 256 MiB out, beside page-locked memory":               {"plain slice out, 268435456 bytes, 4k pages", "page-locked"},
	"page-lock 4 GiB, beside PyTorch, registering with 8 threads":            {"page-lock 4294967296 bytes", "PyTorch, registering with 8 threads"},
	"pipeline with a light kernel, each way, beside chunks in three streams": {"in + kernel of 1 rounds + out, 1073741824 bytes each way, page-locked", "chunks"},
	"page-locked, in":                                                                 {"page-locked to device, 1 GiB", "C"},
	"page-locked, out":                                                                {"device to page-locked, 1 GiB", "C"},
	"page-locked, both at once, each way":                                             {"both at once, each way, 1 GiB", "C"},
	"managed memory prefetched in":                                                    {"managed memory prefetched to the device, 1 GiB", "C"},
	"managed memory prefetched out":                                                   {"managed memory prefetched to the host, 1 GiB", "C"},
	"pageable slice of 256 MiB in, beside cuMemcpy":                                   {"plain slice in, 268435456 bytes, 4k pages", "cuMemcpy"},
	"pageable slice of 256 MiB out, beside cuMemcpy":                                  {"plain slice out, 268435456 bytes, 4k pages", "cuMemcpy"},
	"page-lock 4 GiB, beside cuMemHostAlloc":                                          {"page-lock 4294967296 bytes", "cuMemHostAlloc"},
	"page-locked buffer of a pool and its Close, beside PyTorch":                      {"buffer of a pool and its Close, 1 goroutines", "PyTorch, one thread"},
	"pipeline with a light kernel, each way, beside both directions without a kernel": {"in + kernel of 1 rounds + out, 1073741824 bytes each way, page-locked", "both"},
	"pipeline with a kernel longer than the copies, beside the kernel alone":          {"in + kernel of 8192 rounds + out, 1073741824 bytes each way, page-locked", "kernel"},
	"64 goroutines, each copies 4 KiB to its own stream":                              {"copy in, 4 KiB, by each of 64 goroutines at once, time for each copy", "C"},
	"`CopyAll` of 1024 x 4 KiB in, beside cuMemcpyBatchAsync":                         {"CopyAll in, 1024 of 4 KiB", "C, cuMemcpyBatchAsync"},
	"`CopyAll` of 16 x 64 KiB in, beside cuMemcpyBatchAsync":                          {"CopyAll in, 16 of 64 KiB", "C, cuMemcpyBatchAsync"},
	"copy of 50 KiB in behind one of 256 MiB in another stream":                       {"copy in, 50 KiB, while 256 MiB go the same way in another stream", "C"},
}

// callNames are the rows of PERFORMANCE with medians of many runs on one machine.
var callNames = map[string]string{
	"`Copy` of 4 KiB in":                                          "ferry: copy to device, 4 KiB",
	"`Copy` of 4 KiB in and `Wait`":                               "ferry: copy to device, 4 KiB, and wait",
	"`Launch`, 3 parameters":                                      "ferry: launch, 3 parameters",
	"`Submit` of a batch again: copy in, launch, copy out, event": "ferry: step, submitted again",
	"`Record`": "ferry: event record",
}

// TestPerformance compares PERFORMANCE with the data that it cites.
func TestPerformance(t *testing.T) {
	root, text := readDocument(t, performancePath)
	if n := strings.Count(text, "\n"); n > maxPerformance {
		t.Errorf("%s has %d lines, want at most %d", performancePath, n, maxPerformance)
	}
	rows := figureRows(section(text, "## What is reached"))
	runs := [][]map[string]speedRow{
		{callResults(t, root, "A"), callResults(t, root, "B")},
		{speedResults(t, root, "speed-h200-8.json"), speedResults(t, root, "speed-h200-9.json"), speedResults(t, root, "speed-h200-7.json")},
	}
	for name := range rows {
		if speedNames[name][0] == "" && callNames[name] == "" {
			t.Errorf("the row %q is compared with nothing", name)
		}
	}
	for name := range callNames {
		mustEqual(t, name, rows, runs[0])
	}
	for name := range speedNames {
		mustEqual(t, name, rows, runs[1])
	}
	if want := kindTable(t, root); !strings.Contains(text, want) {
		t.Errorf("%s lacks the table of the data:\n%s", performancePath, want)
	}
}

// mustEqual compares a row with the data: the figures of Ferry and the peer with the first run,
// and each ratio with a run.
func mustEqual(t *testing.T, name string, rows map[string][]string, runs []map[string]speedRow) {
	t.Helper()
	cells, want := rows[name], runs[0][name]
	if len(cells) < 3 || want.What == "" {
		t.Errorf("%q has the cells %q, and the data %+v", name, cells, want)
		return
	}
	scale := 1.0
	number, unit, _ := strings.Cut(cells[0], " ")
	switch unit {
	case "GB/s":
		scale = 1e9
	case "us":
		scale = 1e3
	}
	if !rounded(number, want.Ferry/scale) || !rounded(cells[1], want.Peer/scale) {
		t.Errorf("%q has %s and %s, the data have %g and %g", name, cells[0], cells[1], want.Ferry/scale, want.Peer/scale)
	}
	for i, ratio := range strings.Split(cells[2], ", ") { // "0.9, 0.8, 0.9" or "0.9 in the first run"
		ratio, _, _ = strings.Cut(ratio, " ")
		if i == len(runs) {
			t.Errorf("%q has more ratios than the %d runs", name, i)
			return
		}
		if !rounded(ratio, runs[i][name].Ratio) {
			t.Errorf("%q has the ratio %s in run %d, the data have %g", name, ratio, i+1, runs[i][name].Ratio)
		}
	}
}

// rounded reports whether a text is a number, rounded to the decimals of the text.
func rounded(text string, want float64) bool {
	_, decimals, _ := strings.Cut(text, ".")
	got, err := strconv.ParseFloat(text, 64)
	return err == nil && math.Abs(got-want) <= 0.5001*math.Pow10(-len(decimals))
}

// speedResults returns the rows of a run by the names of PERFORMANCE.
func speedResults(t *testing.T, root, file string) map[string]speedRow {
	t.Helper()
	var run struct {
		Results []speedRow `json:"results"`
	}
	readResult(t, root, file, &run)
	rows := map[string]speedRow{}
	for name, in := range speedNames {
		i := slices.IndexFunc(run.Results, func(r speedRow) bool { return r.What == in[0] && r.Name == in[1] })
		if i < 0 {
			continue // mustEqual reports it for the first run
		}
		rows[name] = run.Results[i]
	}
	return rows
}

// callResults returns the medians of many runs on one machine, by the names of PERFORMANCE. The
// ratio is the median of those of all runs.
func callResults(t *testing.T, root, machine string) map[string]speedRow {
	t.Helper()
	var runs struct {
		Rows []struct {
			Session, What string
			New           []float64
			Peer          []float64 `json:"new_peer"`
		}
	}
	readResult(t, root, "old-new-h200.json", &runs)
	rows := map[string]speedRow{}
	for name, what := range callNames {
		for _, r := range runs.Rows {
			if r.Session != machine || r.What != what {
				continue
			}
			var ratios []float64
			for i := range r.New {
				ratios = append(ratios, r.Peer[i]/r.New[i])
			}
			rows[name] = speedRow{What: what, Ferry: median(r.New), Peer: median(r.Peer), Ratio: median(ratios)}
		}
	}
	return rows
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// kindTable returns the rows for kinds of host memory: measured and predicted times.
func kindTable(t *testing.T, root string) string {
	t.Helper()
	var hardware, software struct{ Rows []map[string]any }
	readResult(t, root, "compare-h200.json", &hardware)
	readResult(t, root, "compare-soft-h200.json", &software)
	var b strings.Builder
	for i, row := range hardware.Rows {
		elements := int(row["elements"].(float64))
		exponent := int(math.Log2(float64(elements)))
		if !slices.Contains([]int{10, 14, 18, 20, 22}, exponent) {
			continue
		}
		if software.Rows[i]["elements"] != row["elements"] {
			t.Fatalf("row %d is for %v and %v elements", i, row["elements"], software.Rows[i]["elements"])
		}
		fmt.Fprintf(&b, "| 2^%d |", exponent)
		for _, kind := range []string{"pageable", "pinned", "zero_copy", "zero_copy_in", "managed", "managed_prefetched", "kernel"} {
			fmt.Fprintf(&b, " %s / %s |", micros(row[kind+"_ns"]), micros(software.Rows[i][kind+"_ns"]))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// micros returns nanoseconds as microseconds, with a decimal below 100.
func micros(ns any) string {
	us := ns.(float64) / 1000
	if us < 100 {
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

func readResult(t *testing.T, root, file string, to any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs/results", file))
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestReadmePackages: the README has a line for each package that programs import.
func TestReadmePackages(t *testing.T) {
	root, readme := readDocument(t, "README.md")
	folders, err := readFolders(root)
	if err != nil {
		t.Fatal(err)
	}
	list := section(readme, "## Packages")
	for dir, f := range folders {
		name := dir
		if dir == "." {
			name = f.name
		}
		if f.name != "" && f.name != "main" && !strings.Contains(dir, "/") && !strings.Contains(list, "`"+name+"`") {
			t.Errorf("the README's list of packages lacks %s", name)
		}
	}
}

// TestFiguresFindsWhatIsWrong plants faults in the figures of a README.
func TestFiguresFindsWhatIsWrong(t *testing.T) {
	const performance = "## What is reached\n| what | Ferry | peer | ratio |\n|---|---|---|---|\n| a copy (calls) | 1.5 us | 1.2 | 0.8 |\n"
	const right = "## What it costs\n| what | Ferry | peer |\n|---|---|---|\n| a copy | 1.5 us | 1.2 us |\n\n## More\ntext\n"
	if got := figureFaults(right, performance); len(got) != 0 {
		t.Errorf("the right README has the faults %q", got)
	}
	for _, c := range []struct{ old, edited string }{
		{"1.5 us", "1.4 us"}, {"1.2 us", "1.2 ns"}, {"a copy", "another copy"}, {"text", "it takes 3 us"}, {"text", "99 % of C"},
	} {
		if got := figureFaults(strings.Replace(right, c.old, c.edited, 1), performance); len(got) == 0 {
			t.Errorf("%q for %q is not found", c.edited, c.old)
		}
	}
}
