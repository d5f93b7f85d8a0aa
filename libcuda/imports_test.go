package libcuda_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestOnlyImporterOfPurego finds every package that programs can import and that
// imports purego: there is this one.
func TestOnlyImporterOfPurego(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	cmd := exec.Command("go", "list", "-f", `{{if ne .Name "main"}}{{.ImportPath}} {{join .Imports " "}}{{end}}`, "github.com/ferrygpu/ferry/...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, out)
	}
	found := false
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(line, " ")
		path = strings.TrimPrefix(path, "github.com/ferrygpu/ferry/")
		switch {
		case !strings.Contains(imports, "github.com/ebitengine/purego"):
		case path == "libcuda":
			found = true
		case strings.HasPrefix(path, "internal/"):
		default:
			t.Errorf("package %s imports purego", path)
		}
	}
	if !found {
		t.Error("package libcuda does not import purego")
	}
}
