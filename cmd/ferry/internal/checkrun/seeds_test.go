package checkrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
)

func again(seed uint64) string { return fmt.Sprint("seed ", seed) }

// script returns a program of a shell.
func script(text string) *checkrun.Program {
	return &checkrun.Program{Args: []string{"sh", "-c", text}, Stdout: io.Discard, Stderr: io.Discard}
}

// TestRunSeeds: each seed is a run under its schedule. A finding has the first seed that shows
// it, and counts once although its threads, values and sides differ.
func TestRunSeeds(t *testing.T) {
	p := script(`echo '{"watched":"watched: all"}' >>$FERRY_CHECK_REPORT
case $FERRY_SCHEDULE in
random:2) printf '%s\n' '{"text":"race in kernel k: 4 bytes at offset 8\n  read of 0x1 by thread (1,0,0): PTX line 5\n  write by thread (2,0,0): PTX line 7"}' ;;
random:3) printf '%s\n' '{"text":"race in kernel k: 8 bytes at offset 4 (3 times)\n  write by thread (9,0,0): PTX line 7\n  read of 0x20 by thread (4,0,0): PTX line 5"}' ;;
random:4) printf '%s\n' '{"text":"race in kernel k: 4 bytes at offset 8\n  read of 0x1 by thread (1,0,0): PTX line 6\n  write by thread (2,0,0): PTX line 7"}'; echo '{"note":true,"text":"slow"}' ;;
*) echo '{"note":true,"text":"slow"}' ;;
esac >>$FERRY_CHECK_REPORT
[ $FERRY_SCHEDULE != random:3 ] || exit 7`)
	r, err := p.RunSeeds(t.Context(), 4, again)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Seeds) != 4 || r.Seeds[0].Seed != 1 || r.Seeds[0].Findings != 0 || r.Seeds[2].Findings != 1 || r.Seeds[2].Status != 7 || r.Status != 7 {
		t.Errorf("the seeds are %+v, the status is %d", r.Seeds, r.Status)
	}
	if len(r.Findings) != 2 || r.Findings[0].Seed != 2 || r.Findings[0].Again != "seed 2" || r.Findings[1].Seed != 4 || len(r.Notes) != 1 {
		t.Errorf("got %+v, %+v", r.Findings, r.Notes)
	}
	text := r.Page().Text(0)
	for _, want := range []string{"watched: all\n", "\n  again: seed 2\n", "\n4 seeds, findings under 2 3 4, the program failed under 1\n", "\n2 findings, 1 note\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	doc, err := r.JSON()
	var back checkrun.Report
	if err = errors.Join(err, json.Unmarshal(doc, &back)); err != nil || len(back.Seeds) != 4 || back.Findings[1].Seed != 4 || back.Findings[1].Again != "seed 4" {
		t.Errorf("%v: %s", err, doc)
	}
}

// TestRunSeedsNothing: a report without findings says so. One run without a device does not
// hide what the others watched.
func TestRunSeedsNothing(t *testing.T) {
	p := script(`[ $FERRY_SCHEDULE = random:1 ] || echo '{"watched":"watched: all"}' >>$FERRY_CHECK_REPORT`)
	r, err := p.RunSeeds(t.Context(), 2, again)
	if err != nil || r.Watched != "watched: all" || !strings.Contains(r.Page().Text(0), "\n2 seeds, findings under none\n") {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestRunSeedsInterrupted: the report has the seeds before the interrupt, and the one in it.
func TestRunSeedsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := script(`echo '{"text":"planted"}' >>$FERRY_CHECK_REPORT; [ $FERRY_SCHEDULE != random:2 ] || { echo ready; exec sleep 600; }`)
	p.Stdout = writer(cancel)
	r, err := p.RunSeeds(ctx, 5, again)
	if !errors.Is(err, context.Canceled) || r == nil || len(r.Seeds) != 2 || len(r.Findings) != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := (&checkrun.Program{Args: []string{"/no/such"}, Stderr: io.Discard}).RunSeeds(t.Context(), 3, again); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestRunSeedsGaveUp: what the checks gave up counts under all seeds.
func TestRunSeedsGaveUp(t *testing.T) {
	p := script(`[ $FERRY_SCHEDULE = random:1 ] || echo '{"gave_up":{"check":"races","what":"launches","count":2}}' >>$FERRY_CHECK_REPORT`)
	r, err := p.RunSeeds(t.Context(), 3, again)
	if err != nil || len(r.GaveUp) != 1 || r.GaveUp[0].Count != 4 {
		t.Errorf("%v: %+v", err, r)
	}
}
