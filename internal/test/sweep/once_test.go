package sweep

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

var codeName = regexp.MustCompile(`CUDA_ERROR_[A-Z0-9_]+`)

// repeated returns the name of a code, or a part of a text between colons and line breaks, that
// stands twice in it; "" if none does. Parts of a few letters, such as "on", may.
func repeated(text string) string {
	seen := map[string]bool{}
	for _, name := range codeName.FindAllString(text, -1) {
		if seen[name] {
			return name
		}
		seen[name] = true
	}
	for line := range strings.Lines(text) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), ": ") {
			if seen[part] && len(part) > 6 && !codeName.MatchString(part) {
				return part
			}
			seen[part] = true
		}
	}
	return ""
}

// unjoined returns the errors of the calls of a scenario, which has joined them.
func unjoined(err error) (all []error) {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, err := range joined.Unwrap() {
			all = append(all, unjoined(err)...)
		}
		return all
	}
	return []error{err}
}

// TestSaidOnce: the error of each call of a scenario that fails says each code and each phrase
// once. It tries a third of what TestSweep tries.
func TestSaidOnce(t *testing.T) {
	random := sample.Rand(t)
	texts := 0
	for _, s := range Scenarios {
		soft, err := softgpu.Open(softgpu.Options{})
		if err != nil {
			t.Fatal(err)
		}
		plain := fault.Wrap(soft, fault.Options{})
		if err := run(s, plain); err != nil {
			t.Fatalf("%s without a failure: %v", s.Name, err)
		}
		for _, f := range failures {
			for nth := uint64(1); nth <= plain.Calls(); nth++ {
				if random.IntN(3*part()) != 0 {
					continue
				}
				d := fault.Wrap(soft, fault.Options{Nth: nth, Mode: f.mode, Code: f.code, Delay: time.Microsecond})
				what := fmt.Sprintf("%s, call %d %v", s.Name, nth, f)
				err := guarded(t, d, what, func() error { return run(s, d) })
				if err == nil {
					continue
				}
				for _, err := range unjoined(err) {
					texts++
					if again := repeated(err.Error()); again != "" {
						t.Errorf("%s, %s: %q is there twice:\n%v", s.Name, d.Failed(), again, err)
					}
				}
				if isRefusedFree(d.Failed()) { // what is left must not disturb later runs
					if soft, err = softgpu.Open(softgpu.Options{}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if texts < 100 {
		t.Errorf("%d errors: the test looks at too few", texts)
	}
	t.Logf("%d errors", texts)
}
