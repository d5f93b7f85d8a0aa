package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/load"
)

// model writes a safetensors file with four tensors into the working directory.
func model(t *testing.T, name string) {
	t.Helper()
	header := `{"head.weight":{"dtype":"BF16","shape":[8,16],"data_offsets":[0,256]},` +
		`"layers.0.weight":{"dtype":"BF16","shape":[64,16],"data_offsets":[256,2304]},` +
		`"layers.1.weight":{"dtype":"BF16","shape":[64,16],"data_offsets":[2304,4352]},` +
		`"steps":{"dtype":"I64","shape":[],"data_offsets":[4352,4360]}}`
	data := make([]byte, 4360)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	text := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	if err := os.WriteFile(name, append(text, data...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLoad: the text and the document of a load, of some tensors, and of a plan.
func TestLoad(t *testing.T) {
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(testdata, "testdata"); err != nil {
		t.Skip(err)
	}
	model(t, "model.safetensors")
	text := want(t, "load", "model.safetensors", "--device", "soft:h200")
	golden(t, "load.txt", text)
	if page, err := os.ReadFile(filepath.Join(testdata, "../../../docs/load.md")); err != nil || !strings.Contains(string(page), text) {
		t.Errorf("docs/load.md has another output, error %v", err)
	}
	golden(t, "load-layers.txt", want(t, "load", "model.safetensors", "--tensors", "layers.*", "--tensors", "steps", "--device", "soft:h200"))
	goldens(t, "load-plan", "load", "model.safetensors", "--plan", "--device", "soft:h200")

	var r load.Report
	document := want(t, "load", "model.safetensors", "--device", "soft:h200", "--json")
	if err := json.Unmarshal([]byte(document), &r); err != nil || !isDocument(document) {
		t.Fatalf("error %v: %s", err, document)
	}
	p := r.Load.Parts
	if r.Schema != load.Schema || r.Tensors != 4 || r.Bytes != 4360 || p.Link+p.Pinning+p.Memory+p.Rest > r.Load.Ns || p.Link <= 0 || p.CPU < 0 {
		t.Errorf("%s", document)
	}
}

// TestLoadVerify: the hashes of the device and of the file are compared, and a difference is a finding.
func TestLoadVerify(t *testing.T) {
	t.Chdir(t.TempDir())
	model(t, "model.safetensors")
	if out := want(t, "load", "model.safetensors", "--verify", "--device", "soft:h200"); !strings.Contains(out, "\nVerified: the hashes of 4 tensors on the device, 4.26 KiB, are those of the files (") {
		t.Error(out)
	}
	err := loadError(fmt.Errorf("verify: %w", &checkpoint.MismatchError{Tensor: "head.weight", File: "m", Bytes: 256, Device: 1, Want: 2}))
	if _, ok := errors.AsType[*foundError](err); !ok || !strings.Contains(err.Error(), `tensor "head.weight"`) {
		t.Errorf("%T: %v", err, err)
	}
	if other := errors.New("other"); loadError(other) != other {
		t.Error("another error is a finding")
	}
}

// TestLoadBad: what is wrong is named, and nothing is loaded.
func TestLoadBad(t *testing.T) {
	t.Chdir(t.TempDir())
	model(t, "model.safetensors")
	if err := os.WriteFile("short.safetensors", []byte("\xff\xff\xff\xff\xff\xff\xff\x7f{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for words, c := range map[string]struct {
		status int
		want   string
	}{
		"":                                       {exitUsage, "no FILE given"},
		"model.safetensors --to f17":             {exitUsage, "--to f17: "},
		"model.safetensors --plan --verify":      {exitUsage, "--plan and --verify"},
		"model.safetensors --to f16 --verify":    {exitUsage, "--verify and --to"},
		"missing.safetensors":                    {exitError, "missing.safetensors"},
		"short.safetensors":                      {exitError, "short.safetensors"},
		"short.safetensors --plan":               {exitError, "short.safetensors"},
		"model.safetensors --tensors layer.*":    {exitError, `no tensor "layer.*"`},
		"model.safetensors --device soft:h20":    {exitError, `no profile "h20"`},
		"model.safetensors --tensors head.weigh": {exitError, `did you mean "head.weight"`},
	} {
		args := append([]string{"load"}, strings.Fields(words)...)
		if !strings.Contains(words, "--device") {
			args = append(args, "--device", "soft")
		}
		status, out, errs := ferryRun(args...)
		if status != c.status || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d, stdout %q, stderr %q", words, status, out, errs)
		}
	}
}

// TestBar: the bar, its bytes and its rate, ten times a second at most.
func TestBar(t *testing.T) {
	var out bytes.Buffer
	began := time.Unix(1000, 0)
	now := began
	p := &progress{w: &out, terminal: true, columns: 80, began: began, now: func() time.Time { return now }}
	const gib = 1 << 30
	p.bar("loading", 0, 4*gib) // not in the first second
	now = began.Add(2 * time.Second)
	p.bar("loading", gib, 4*gib)
	p.bar("loading", 2*gib, 4*gib) // too soon
	now = began.Add(4 * time.Second)
	p.bar("loading", 4*gib, 4*gib)
	p.bar("empty", 0, 0)
	now = began.Add(5 * time.Second)
	p.bar("verifying", 0, 1<<19)
	want := "\r\x1b[Kloading [======                  ]  25 %, 1.0 of 4.0 GiB, 537 MB/s" +
		"\r\x1b[Kloading [========================] 100 %, 4.0 of 4.0 GiB, 1074 MB/s" +
		"\r\x1b[Kverifying [                        ]   0 %, 0.0 of 0.5 MiB"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
