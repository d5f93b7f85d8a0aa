package ferrypprof_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/contrib/ferrypprof"
	"github.com/ferrygpu/ferry/metrics"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a software GPU that records places, and adds it to a set.
func open(t testing.TB, set *metrics.Set, name string) *ferry.GPU {
	t.Helper()
	gpu, err := ferry.Open("soft")
	check(t, err)
	gpu.RecordPlaces(true)
	check(t, set.AddGPU(name, gpu))
	return gpu
}

// Functions that allocate, whose names a profile must have.

//go:noinline
func allocWeights(t testing.TB, g *ferry.GPU) *ferry.Device[byte] {
	m, err := ferry.Alloc[byte](g, 5<<20)
	check(t, err)
	return m
}

//go:noinline
func allocRequest(t testing.TB, g *ferry.GPU) *ferry.Host[byte] {
	m, err := ferry.AllocHost[byte](g, 3<<20, nil)
	check(t, err)
	return m
}

// get asks the handler, as pprof does.
func get(t testing.TB, set *metrics.Set, query string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	ferrypprof.Handler(set).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/ferry"+query, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Result()
}

// sums returns the values of the samples of a function, of all kinds.
func sums(p *profile.Profile, function string) (all [4]int64, labels string) {
	for _, s := range p.Sample {
		for _, l := range s.Location {
			if strings.HasSuffix(l.Line[0].Function.Name, "."+function) {
				for i, v := range s.Value {
					all[i] += v
				}
				labels = s.Label["gpu"][0] + " " + s.Label["kind"][0]
			}
		}
	}
	return all, labels
}

// TestProfile: a profile that is parsed back has the bytes and buffers of each place, now and ever,
// and its sums are those of MemoryPlaces and HostStats.
func TestProfile(t *testing.T) {
	set := new(metrics.Set)
	g := open(t, set, "a")
	weights := allocWeights(t, g)
	first, second := allocRequest(t, g), allocRequest(t, g)
	check(t, first.Close())
	p, err := profile.Parse(get(t, set, "").Body)
	check(t, err)
	check(t, p.CheckValid())
	if got, of := sums(p, "allocWeights"); got != [4]int64{1, 5 << 20, 1, 5 << 20} || of != "a device" {
		t.Errorf("allocWeights has %v of %q", got, of)
	}
	if got, of := sums(p, "allocRequest"); got != [4]int64{2, 6 << 20, 1, 3 << 20} || of != "a page-locked" {
		t.Errorf("allocRequest has %v of %q", got, of)
	}
	var total [4]int64
	pinned := int64(0)
	for _, s := range p.Sample {
		for i, v := range s.Value {
			total[i] += v
		}
		if k := s.Label["kind"][0]; k != "device" && k != "managed" {
			pinned += s.Value[3]
		}
	}
	places, err := ferry.MemoryPlaces(g)
	check(t, err)
	var want [4]int64
	for _, m := range places {
		for i, v := range []int64{m.AllBuffers, m.AllBytes, int64(m.Buffers), int64(m.Bytes)} {
			want[i] += v
		}
	}
	use, err := ferry.HostStats(g)
	check(t, err)
	if total != want || pinned != int64(use.Locked) {
		t.Errorf("the samples have %v, and %d bytes page-locked; MemoryPlaces has %v, HostStats %+v", total, pinned, want, use)
	}
	if p.DefaultSampleType != "inuse_space" {
		t.Errorf("the default is %q", p.DefaultSampleType)
	}
	check(t, errors.Join(second.Close(), weights.Close(), g.Close()))
	p, err = profile.Parse(get(t, set, "").Body)
	check(t, err)
	if len(p.Sample) != 0 {
		t.Errorf("a closed GPU has %d samples", len(p.Sample))
	}
}

// TestPprof: "go tool pprof" reads a profile, and shows functions, bytes and labels.
func TestPprof(t *testing.T) {
	set := new(metrics.Set)
	g := open(t, set, "a")
	weights, request := allocWeights(t, g), allocRequest(t, g)
	var file bytes.Buffer
	_, err := file.ReadFrom(get(t, set, "").Body)
	check(t, err)
	path := filepath.Join(t.TempDir(), "ferry.pb.gz")
	check(t, os.WriteFile(path, file.Bytes(), 0o600))
	for _, c := range []struct {
		flags string
		want  []string
	}{
		{"-top", []string{`Type: inuse_space`, `8MB total`, `5MB 62\.50% .*\.allocWeights`, `3MB 37\.50% .*\.allocRequest`}},
		{"-top -sample_index=alloc_objects", []string{`Type: alloc_objects`, `\b1 50\.00% .*\.allocWeights`}},
		{"-tags", []string{`3MB \(37\.50%\): page-locked`, `8MB \(  100%\): a\b`}},
		{"-list=allocWeights", []string{`5MB .*ferry\.Alloc\[byte\]\(g, 5<<20\)`}},
	} {
		command := exec.Command("go", append(append([]string{"tool", "pprof"}, strings.Fields(c.flags)...), path)...)
		command.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
		out, err := command.CombinedOutput()
		check(t, err)
		for _, want := range c.want {
			if !regexp.MustCompile(want).Match(out) {
				t.Errorf("pprof %s lacks %s:\n%s", c.flags, want, out)
			}
		}
	}
	text := new(bytes.Buffer)
	_, err = text.ReadFrom(get(t, set, "?debug=1").Body)
	check(t, err)
	if !strings.Contains(text.String(), "allocWeights") {
		t.Errorf("the text is\n%s", text)
	}
	check(t, errors.Join(request.Close(), weights.Close(), g.Close()))
}

// TestConcurrent makes profiles while goroutines allocate, and a GPU is closed.
func TestConcurrent(t *testing.T) {
	set := new(metrics.Set)
	open(t, set, "stays")
	g := open(t, set, "goes")
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 100 {
				host, err := ferry.AllocHost[byte](g, 1<<12, nil)
				device, err2 := ferry.Alloc[byte](g, 1<<12)
				if err := errors.Join(err, err2, host.Close(), device.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		p, err := ferrypprof.Profile(set)
		check(t, err)
		check(t, p.CheckValid())
	}
	workers.Wait()
	p, err := ferrypprof.Profile(set)
	check(t, err)
	if got, _ := sums(p, "func1"); got[2] != 0 || got[0] != 800 {
		t.Errorf("the places of the goroutines have %v, want 800 buffers ever and none now", got)
	}
	check(t, g.Close())
	for name, g := range set.GPUs() {
		if name != "stays" {
			t.Error("the set has ", name)
		}
		check(t, g.Close())
	}
}
