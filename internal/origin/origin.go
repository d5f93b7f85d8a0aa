// Package origin has the origin of results: the version of this code and of the GPU's
// kernel module. Every recorded document has both.
package origin

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// Commit returns the version of the code: FERRY_COMMIT, else the revision that the
// build recorded, followed by + if files were changed. It returns "" if neither exists.
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

// Release returns the version of NVIDIA's kernel module, such as 580.159.04, or "" if
// there is none.
func Release() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	return release(string(text))
}

// release returns the first word of the first line that looks like a version.
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
