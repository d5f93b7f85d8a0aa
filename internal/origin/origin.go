// Package origin says what results were made by: the version of this code and of
// the GPU's kernel module. Every document that is kept has both.
package origin

import (
	"os"
	"regexp"
	"runtime/debug"
)

// Commit is the version of the code: FERRY_COMMIT, or what the build was told, with
// a + behind it if files were changed; "" if nobody knows.
func Commit() string {
	if c := os.Getenv("FERRY_COMMIT"); c != "" {
		return c
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return revision(info.Settings)
}

func revision(settings []debug.BuildSetting) (text string) {
	changed := ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			text = s.Value[:min(7, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	return text + changed
}

// Release is the version of NVIDIA's kernel module, such as 580.159.04; "" where
// there is none.
func Release() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	return release(string(text))
}

// number is the first word of numbers with points between them.
var number = regexp.MustCompile(`\b\d+(\.\d+)+\b`)

func release(text string) string { return number.FindString(text) }
