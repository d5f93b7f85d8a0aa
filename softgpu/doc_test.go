package softgpu

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFilesInComments: the files that the comment of a package names exist. A list of files, one to
// a line, has all files of the package.
func TestFilesInComments(t *testing.T) {
	docs, err := filepath.Glob("internal/*/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	lists := 0
	for _, doc := range append(docs, "doc.go") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(doc)
		for _, name := range regexp.MustCompile(`[\w*]+\.go\b`).FindAllString(string(text), -1) {
			if found, err := filepath.Glob(filepath.Join(dir, name)); len(found) == 0 {
				t.Errorf("%s names %s, which does not exist: %v", doc, name, err)
			}
		}
		list := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^//\t(\w+\.go)\s`).FindAllStringSubmatch(string(text), -1) {
			list[m[1]] = true
		}
		if len(list) == 0 {
			continue
		}
		lists++
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if name := filepath.Base(file); name != "doc.go" && !strings.HasSuffix(name, "_test.go") && !list[name] {
				t.Errorf("the list of files in %s lacks %s", doc, name)
			}
		}
	}
	if lists < 4 {
		t.Errorf("%d comments have a list of files, want at least 4", lists)
	}
}
