package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	contributingPath = "CONTRIBUTING.md"
	tableBegin       = "<!-- generated parts -->\n"
	tableEnd         = "<!-- end of generated parts -->\n"
)

// contributingFile puts the table of generated parts into CONTRIBUTING.md.
func contributingFile(root string, parts []part) ([]output, error) {
	text, err := os.ReadFile(filepath.Join(root, contributingPath))
	if err != nil {
		return nil, err
	}
	before, rest, ok1 := bytes.Cut(text, []byte(tableBegin))
	_, after, ok2 := bytes.Cut(rest, []byte(tableEnd))
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%s has no place for the table of generated parts", contributingPath)
	}
	return []output{{contributingPath, bytes.Join([][]byte{before, partTable(parts), after}, nil)}}, nil
}

// partTable returns the table of parts, one in each row, with the marks around it.
func partTable(parts []part) []byte {
	var b bytes.Buffer
	b.WriteString(tableBegin + "| generated part | made from | written by |\n|---|---|---|\n")
	for _, p := range parts {
		by := "`internal/gen`"
		if p.make == nil {
			by = fmt.Sprintf("`%s` in `%s`", p.test, strings.TrimPrefix(p.pkg, "./"))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.Join(p.files, "`, `"), p.from, by)
	}
	b.WriteString(tableEnd)
	return b.Bytes()
}
