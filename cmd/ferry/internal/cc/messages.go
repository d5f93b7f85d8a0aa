package cc

import (
	"regexp"
	"strings"
)

// messageForm begins a message of clang. The lines after it, to the next one, belong to it.
var messageForm = regexp.MustCompile(`^\S.*:\d+:\d+: (?:fatal error|error|warning): |^In file included from `)

// countForm matches clang's last line.
var countForm = regexp.MustCompile(`^\d+ (?:warning|error)s?.* generated.*\.$`)

// messages splits what clang has printed into its messages. The last line, which counts them, is none.
func messages(text string) (all []string) {
	included := false
	for line := range strings.Lines(text) {
		plain := strings.TrimRight(line, "\n")
		if countForm.MatchString(plain) {
			continue
		}
		begins := messageForm.MatchString(plain) && !included || len(all) == 0
		included = strings.HasPrefix(plain, "In file included from ")
		if begins {
			all = append(all, line)
			continue
		}
		all[len(all)-1] += line
	}
	return all
}

// merged returns the messages of both compilations of a file, each once.
func merged(device, host string) string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, m := range append(messages(device), messages(host)...) {
		if !seen[m] {
			seen[m] = true
			b.WriteString(m)
		}
	}
	return b.String()
}
