package origin

import (
	"runtime/debug"
	"testing"
)

func TestCommit(t *testing.T) {
	t.Setenv("FERRY_COMMIT", "0123abc")
	if got := Commit(); got != "0123abc" {
		t.Errorf("FERRY_COMMIT=0123abc is %q", got)
	}
	built := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "fedcba9876543210"}, {Key: "vcs.modified", Value: "false"}}
	if got := revision(built); got != "fedcba9" {
		t.Errorf("unchanged files: %q", got)
	}
	built[2].Value = "true"
	if got := revision(built); got != "fedcba9+" {
		t.Errorf("changed files: %q", got)
	}
	if got := revision(nil); got != "" {
		t.Errorf("no revision: %q", got)
	}
}

func TestRelease(t *testing.T) {
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder)": "580.159.04",
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82\nGCC version:  gcc 12.2.0":                  "470.82",
		"NVRM version: no number\nGCC version: 11.4.0\n":                                                    "",
		"nothing": "",
		"":        "",
	} {
		if got := release(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
