// Package origin says what results were made by: the version of this code and of
// the GPU's kernel module. Every document that is kept has both.
package origin

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
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

// release is the first word of the first line that looks like a version.
func release(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	for word := range strings.FieldsSeq(line) {
		major, rest, ok := strings.Cut(word, ".")
		if _, err := strconv.Atoi(major); ok && err == nil && strings.Trim(rest, "0123456789.") == "" {
			return word
		}
	}
	return ""
}
