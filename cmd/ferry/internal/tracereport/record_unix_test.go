//go:build unix

package tracereport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// first is the first line of a recording.
const first = `{"schema":"ferry.trace/1","pid":1,"program":"p"}`

// record runs a script whose recording is kept in a file.
func record(t *testing.T, keep, script string) error {
	p := &Program{Args: []string{"sh", "-c", script}, Stdout: io.Discard, Stderr: io.Discard, Keep: keep}
	_, err := p.Run(t.Context())
	return err
}

// TestOtherProcesses: the recordings of all processes are kept, also if the name of the file, or
// of its folder, looks like a pattern.
func TestOtherProcesses(t *testing.T) {
	for _, name := range []string{"run.json", "run[1].json", "a*[?/run.json", `a\[b/?.json`} {
		keep := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(filepath.Dir(keep), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := record(t, keep, `echo '`+first+`' | tee "$FERRY_TRACE.7" "$FERRY_TRACE.80" >"$FERRY_TRACE"`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, path := range []string{keep, keep + ".7", keep + ".80"} {
			if text, err := os.ReadFile(path); string(text) != first+"\n" {
				t.Errorf("%s has %q, %v", path, text, err)
			}
		}
		if list, _ := os.ReadDir(filepath.Dir(keep)); len(list) != 3 {
			t.Errorf("%s: the folder has %v", name, list)
		}
	}
}

// TestEndedWhileRead: an interrupt after the program has ended is no success. The recording is
// read to its end. Here it is a pipe.
func TestEndedWhileRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pipe := make(chan string)
	go func() {
		w, err := os.OpenFile(strings.TrimSpace(<-pipe), os.O_WRONLY, 0) // waits until it is read
		cancel()
		if err == nil {
			_, err = fmt.Fprintln(w, first)
			w.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}()
	p := &Program{Args: []string{"sh", "-c", `mkfifo "$FERRY_TRACE"; echo "$FERRY_TRACE"`}, Stdout: toChannel(pipe), Stderr: io.Discard}
	if rec, err := p.Run(ctx); !errors.Is(err, context.Canceled) || rec == nil {
		t.Errorf("Run returns %v, %v", rec, err)
	}
}

// toChannel is an output that sends what is written.
type toChannel chan<- string

func (c toChannel) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// TestNoRecording: a new file that is no recording does not replace the old one. The error says
// where it is.
func TestNoRecording(t *testing.T) {
	for _, text := range []string{"", "text", `{"schema":"other"}`} {
		keep := filepath.Join(t.TempDir(), "old.json")
		if err := os.WriteFile(keep, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
		err := record(t, keep, `printf '%s' '`+text+`' >"$FERRY_TRACE"`)
		if err == nil {
			t.Errorf("%q: no error", text)
			continue
		}
		_, at, _ := strings.Cut(err.Error(), "what there is of it is in ")
		if now, err := os.ReadFile(at); string(now) != text || err != nil {
			t.Errorf("%q: the new file has %q, %v", text, now, err)
		}
		if now, err := os.ReadFile(keep); string(now) != "old" {
			t.Errorf("%q: the old file has %q, %v", text, now, err)
		}
	}
}
