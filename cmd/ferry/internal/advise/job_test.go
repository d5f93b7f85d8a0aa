package advise

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "4096": 4096, "64KiB": 65536, "1.5MiB": 3 << 19, "2G": 2 << 30, "8 MB": 8 << 20, "4k": 4096, "64GiB": MaxBytes} {
		if got, err := ParseBytes("in", text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-4", "3", "65GiB", "4TiB", "1e99", "NaN", "Inf", "MiB", "1.1KiB", "4KiBKiB"} {
		got, err := ParseBytes("in", text)
		if _, is := errors.AsType[*OptionError](err); !is || !strings.Contains(err.Error(), "--in \""+text+"\": want a multiple of 4 bytes") {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
}

func TestParseAccess(t *testing.T) {
	for _, text := range []string{"stream", "random", "table", "stride=32", "stencil=4"} {
		if a, err := ParseAccess(text); err != nil || a.String() != text {
			t.Errorf("%q: got %v, %v", text, a, err)
		}
	}
	for _, text := range []string{"", "streams", "stream=4", "stride", "stride=0", "stride=-1", "stride=x", "stencil=1048577", "table=1", "stride="} {
		if a, err := ParseAccess(text); err == nil || !strings.Contains(err.Error(), "--access \""+text+"\": want stream, stride=N, random, table or stencil=N") {
			t.Errorf("%q: got %v, %v", text, a, err)
		}
	}
}

// TestCheck: the error of a bad option names the flag, the value and what is allowed.
func TestCheck(t *testing.T) {
	good := Job{In: 1 << 20, Out: 1 << 20}
	complete(&good)
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Job){
		"--in -4: want a multiple":                  func(j *Job) { j.In = -4 },
		"--out 6: want a multiple":                  func(j *Job) { j.Out = 6 },
		"--in 0: want more than 0":                  func(j *Job) { j.In, j.Out = 0, 0 },
		"--reuse 0: want 1 to 1048576 passes":       func(j *Job) { j.Reuse = 0 },
		"--reuse 2: want 1 if --in is 0":            func(j *Job) { j.In, j.Reuse = 0, 2 },
		"--threads -1: want 1 to 16777216":          func(j *Job) { j.Threads = -1 },
		"--kernel-time 11s: want 0 to 10s":          func(j *Job) { j.Kernel = 11 * time.Second },
		"--calls-per-second -1: want 0 to 1e9":      func(j *Job) { j.Rate = -1 },
		"--devices 17: want 1 to 16":                func(j *Job) { j.Devices = 17 },
		"--devices 0: want 1 to 16":                 func(j *Job) { j.Devices = 0 },
		`--source "disk": want slice, file`:         func(j *Job) { j.Source = "disk" },
		"--access table: want --in of at most":      func(j *Job) { j.In, j.Access.Kind = 2<<20, Table },
		"--access random: want --devices 1 with it": func(j *Job) { j.Devices, j.Access.Kind = 2, Random },
		"--access stride: want stream, stride=N":    func(j *Job) { j.Access.Kind = Stride },
	} {
		j := good
		change(&j)
		if err := j.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestParts: the parts of a job are all of it.
func TestParts(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8} {
		j := Job{In: 4 * 1003, Out: 4 * 5, Kernel: time.Duration(n) * time.Second}
		in, out := 0, 0
		for i := range n {
			p := j.part(i, n)
			first, end := j.bounds(j.In, i, n)
			if first*4 != in || end*4 != in+p.In || p.Kernel != time.Second {
				t.Errorf("part %d of %d: words %d to %d, %+v", i, n, first, end, p)
			}
			in, out = in+p.In, out+p.Out
		}
		if in != j.In || out != j.Out {
			t.Errorf("%d parts have %d and %d bytes", n, in, out)
		}
	}
}

// TestHuge: a kernel that reads few words of a large memory is predicted by smaller runs,
// because a run has that memory.
func TestHuge(t *testing.T) {
	j := Job{In: 300 << 20, Out: 4, Access: Access{Stride, 1 << 20}}
	complete(&j)
	const want = "a line through 75.0 MiB to 4 bytes and 150.0 MiB to 4 bytes"
	if x, err := h200(t).predict(t.Context(), mapped, j); err != nil || x.from != want {
		t.Errorf("%+v, %v", x, err)
	}
}
