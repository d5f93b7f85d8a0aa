package libcuda_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestImportersOfPurego finds every package that imports purego: there are this one and
// internal/dl.
func TestImportersOfPurego(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "github.com/ferrygpu/ferry/...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, out)
	}
	found := map[string]bool{"libcuda": false, "internal/dl": false}
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(line, " ")
		if !strings.Contains(imports, "github.com/ebitengine/purego") {
			continue
		}
		path = strings.TrimPrefix(path, "github.com/ferrygpu/ferry/")
		if _, may := found[path]; !may {
			t.Errorf("package %s imports purego", path)
		}
		found[path] = true
	}
	for path, imports := range found {
		if !imports {
			t.Errorf("package %s does not import purego", path)
		}
	}
}
