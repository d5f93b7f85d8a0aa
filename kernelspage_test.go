package ferry_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/compiletest"
)

// TestKernelsPage follows docs/kernels.md in an empty folder, with the clone of Ferry that
// is tested: it binds the kernel, runs the program and the test, and then makes the three
// mistakes whose messages the page shows.
func TestKernelsPage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	compiletest.Compile(t, "empty.cu", "", nil)
	text, err := os.ReadFile("docs/kernels.md")
	if err != nil {
		t.Fatal(err)
	}
	page := &page{t: t, text: string(text), dir: t.TempDir()}
	programs, messages := page.blocks("go"), page.blocks("text")
	kernel := page.blocks("cuda")[0]
	page.write("kernels.cu", kernel)
	page.write("main.go", programs[0])
	page.write("main_test.go", programs[1])
	page.newModule()

	page.goCommand(true, "generate")
	if got := page.goCommand(true, "run", "."); got != "[2 4 6 8]\n" {
		t.Errorf("the program prints %q", got)
	}
	page.goCommand(true, "test")

	page.write("kernels.cu", strings.Replace(kernel, "x[i];", "X[i];", 1))
	page.wantText(page.goCommand(false, "tool", "ferry", "compile", "kernels.cu"), messages[0])
	page.write("kernels.cu", strings.Replace(kernel, "i < n", "i + 1 < n", 1))
	page.goCommand(true, "generate")
	page.wantText(page.goCommand(false, "test"), messages[1])
	page.write("kernels.cu", strings.Replace(kernel, "i < n", "i <= n", 1))
	page.goCommand(true, "tool", "ferry", "compile", "--lineinfo", "kernels.cu")
	page.wantText(page.goCommand(false, "tool", "ferry", "run", "kernels.ptx", "--device", "soft", "--kernel", "scale",
		"--grid", "1", "--block", "32", "s32=4", "f32=2", "in:f32=1,2,3,4", "out:f32=[4]"), messages[2])
}

// page is a document whose programs are run.
type page struct {
	t    *testing.T
	text string
	dir  string
}

// blocks returns the blocks of code in a language.
func (p *page) blocks(language string) (all []string) {
	p.t.Helper()
	for _, part := range strings.Split(p.text, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```\n")
		all = append(all, block)
	}
	if len(all) == 0 {
		p.t.Fatalf("docs/kernels.md has no block of %s", language)
	}
	return all
}

func (p *page) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// newModule makes the folder a module that uses this clone. It copies Ferry's go.sum, and
// downloads first what the command needs on any system and go mod tidy asks for.
func (p *page) newModule() {
	p.t.Helper()
	root, err := os.Getwd()
	if err != nil {
		p.t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("go.sum", string(sums))
	if out, err := exec.Command("go", "mod", "download").CombinedOutput(); err != nil {
		p.t.Fatalf("go mod download: %v\n%s", err, out)
	}
	p.goCommand(true, "mod", "init", "example.com/scale")
	const module = "github.com/ferrygpu/ferry"
	p.goCommand(true, "mod", "edit", "-require", module+"@v0.0.0", "-replace", module+"="+root, "-tool", module+"/cmd/ferry")
	p.goCommand(true, "mod", "tidy")
}

// goCommand runs the go command in the folder, and returns its output.
func (p *page) goCommand(succeeds bool, args ...string) string {
	p.t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off", "FERRY_DEVICE=soft", "FERRY_REQUIRE_GPU=0", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if (err == nil) != succeeds {
		p.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// compilerName is what depends on the compiler: its name, lines of PTX, types and registers.
var compilerName = regexp.MustCompile(`, by clang .*|, by NVRTC .*|PTX line \d+|kernels.ptx:\d+: |\.[bf]32|%\w+`)

// wantText checks that the output has each line of a block of the page.
func (p *page) wantText(got, block string) {
	p.t.Helper()
	got = compilerName.ReplaceAllString(got, "")
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(compilerName.ReplaceAllString(line, ""))
		if !strings.Contains(got, line) {
			p.t.Errorf("docs/kernels.md shows the line\n%s\nwhich is not in\n%s", line, got)
		}
	}
}
