//go:build race

package softgpu

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

const raceProgram = "FERRY_TEST_MAPPED_RACE"

// mappedPrograms use mapped memory from the host while a kernel runs. The value says whether
// that is right.
func mappedPrograms() map[string]bool {
	all := map[string]bool{"host updates": false, "host reads": true, "kernels swap": true}
	for i, form := range storeForms {
		all[fmt.Sprint("data", i)] = form.ordered
	}
	return all
}

// TestMappedRaces runs each program in a process of its own. Wrong ones are reported.
func TestMappedRaces(t *testing.T) {
	for name, right := range mappedPrograms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := exec.Command(os.Args[0], "-test.run=^TestMappedRaceProgram$", "-test.v")
			c.Env = append(os.Environ(), raceProgram+"="+name, ScheduleVariable+"=")
			out, _ := c.CombinedOutput()
			if raced := strings.Contains(string(out), "DATA RACE"); raced == right || !strings.Contains(string(out), "ran "+name) {
				t.Errorf("a report: %v, want %v\n%s", raced, !right, out)
			}
		})
	}
}

// TestMappedRaceProgram is the program of TestMappedRaces.
func TestMappedRaceProgram(t *testing.T) {
	name := os.Getenv(raceProgram)
	if name == "" {
		t.Skip("a program of TestMappedRaces")
	}
	r := mappedRigOf(t, Options{})
	switch name {
	case "host updates":
		r.lost(20_000)
	case "host reads": // two kernels update the word, and the host looks on
		streams := []cu.Stream{r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)}
		for _, s := range streams {
			r.ok(r.run(r.kernel("hammer"), 1, 64, s, r.dev, uint32(30)))
		}
		for range 1000 {
			atomic.LoadUint32(&r.words[0])
		}
		r.sync(streams[0])
		r.sync(streams[1])
	case "kernels swap": // one by compare and swap, the other by additions
		streams := []cu.Stream{r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)}
		for i, s := range streams {
			r.ok(r.run(r.kernel([]string{"swap", "hammer"}[i]), 1, 1, s, r.dev, uint32(500)))
		}
		r.sync(streams[0])
		r.sync(streams[1])
	default:
		r.ok(r.beside(name, 16, 0, func() {
			for j := range 16 {
				r.words[1] += r.words[256+32*j]
			}
			atomic.StoreUint32(&r.words[16], 1)
		}))
	}
	fmt.Println("ran", name)
}
