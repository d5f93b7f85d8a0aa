package softlib

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/usercache"
	"github.com/ferrygpu/ferry/internal/printable"
)

// findSource returns the folder of Ferry's module: the one from which this program was compiled, be
// it a checkout or the module cache; or its version by go mod download; or the module of the
// current folder, or one that it requires.
func findSource(ctx context.Context, goTool string) (string, error) {
	var tried []string
	_, file, _, _ := runtime.Caller(0)
	own := filepath.Join(filepath.Dir(file), "../../../..")
	if filepath.IsAbs(own) {
		why := unfit(own)
		if why == "" {
			return own, nil
		}
		tried = append(tried, fmt.Sprintf("%s, where this ferry was compiled, %s", printable.Path(own), why))
	}
	if v := version(); v != "" {
		dir, why := ask(ctx, goTool, "mod", "download", "-json", module+"@"+v)
		if why == "" {
			return dir, nil
		}
		tried = append(tried, fmt.Sprintf("go mod download of version %s %s", v, why))
	}
	dir, why := ask(ctx, goTool, "list", "-m", "-json", module)
	if why == "" {
		return dir, nil
	}
	tried = append(tried, "the module of the current folder "+why)
	return "", fmt.Errorf("the sources of Ferry were not found: %s: start this command in a checkout of Ferry, or as \"go run %s/cmd/ferry@latest lib\"", strings.Join(tried, "; "), module)
}

// version returns the version of this program, "" for one that was compiled from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != module || strings.Contains(info.Main.Version, "+dirty") || !strings.HasPrefix(info.Main.Version, "v") {
		return ""
	}
	return info.Main.Version
}

// ask returns the folder of the module that a go command names, or why there is none.
func ask(ctx context.Context, goTool string, args ...string) (dir, why string) {
	c := exec.CommandContext(ctx, goTool, args...)
	var errs bytes.Buffer
	c.Stderr = &errs
	text, err := c.Output()
	var answer struct{ Dir, Error string }
	if parsed := json.Unmarshal(text, &answer); err != nil || parsed != nil || answer.Error != "" {
		line, _, _ := strings.Cut(strings.TrimSpace(answer.Error+errs.String()), "\n")
		return "", "failed: " + printable.Line(line)
	}
	return answer.Dir, unfit(answer.Dir)
}

// unfit says why a folder has not the library's sources, or cannot be trusted to; "" if it has.
// Another user could make the folder in which somebody has compiled this program.
func unfit(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if first, _, _ := strings.Cut(string(text), "\n"); err != nil || strings.TrimSpace(first) != "module "+module {
		return "has no sources of it"
	}
	info, err := os.Stat(filepath.Join(dir, target))
	switch {
	case err != nil || !info.IsDir():
		return "has no " + target
	case !usercache.Trusted(info):
		return "belongs to another user"
	}
	return ""
}
