package softgpu

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// FuzzEnvironment parses the texts of FERRY_SCHEDULE, FERRY_KERNEL_LIMIT and FERRY_CHECK. An
// error has the text, and what is accepted is in range.
func FuzzEnvironment(f *testing.F) {
	for _, seed := range []string{"", "eager", "lazy", "random", "random:7", "random:18446744073709551615", "10s", "1m30s", "-1s", "9223372036854775807ns", "1", "0", "races", "races,races", "memory, races", ",,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > hostile.Bytes || strings.ContainsRune(text, 0) { // no variable has a zero byte
			return
		}
		hostile.Check(t, "environment", func() {
			if s, err := ParseSchedule(text); err == nil && !s.known() || err != nil && err.Error() == "" {
				t.Errorf("schedule %v, %v", s, err)
			}
			t.Setenv(LimitVariable, text)
			if limit, err := new(Options).limit(); err == nil && limit <= 0 && text != "" {
				t.Errorf("limit %v, %v", limit, err)
			}
			if names, err := ParseCheck(text); err == nil && len(names) > 2 || err != nil && names != nil {
				t.Errorf("checks %q, %v", names, err)
			}
		})
	})
}
