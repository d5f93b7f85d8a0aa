package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// program is a whole program with how it is built, run and checked.
type program struct {
	name, project, folder string
	build, args           []string
	want, never           []*regexp.Regexp
}

// readPrograms reads a list of programs; its head has the form of a line.
func readPrograms(name string) (all []program, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		p, err := readProgram(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, line, err)
		}
		all = append(all, p)
	}
	return all, nil
}

var checks = regexp.MustCompile(`^\s*(!?)/([^/]*)/`)

func readProgram(line string) (p program, err error) {
	parts := strings.SplitN(line, "|", 4)
	if len(parts) != 4 {
		return p, fmt.Errorf("%d parts, want 4", len(parts))
	}
	head := strings.Fields(parts[0])
	if len(head) != 3 {
		return p, fmt.Errorf("a name, a project and a folder are needed")
	}
	p = program{name: head[0], project: head[1], folder: head[2], build: strings.Fields(parts[1]), args: strings.Fields(parts[2])}
	for rest := parts[3]; strings.TrimSpace(rest) != ""; {
		m := checks.FindStringSubmatch(rest)
		if m == nil {
			return p, fmt.Errorf("%q is no check", rest)
		}
		rest = rest[len(m[0]):]
		expression, err := regexp.Compile("(?m)" + m[2])
		if err != nil {
			return p, err
		}
		if m[1] == "!" {
			p.never = append(p.never, expression)
		} else {
			p.want = append(p.want, expression)
		}
	}
	return p, nil
}

// verdict returns what is wrong with the output of a run that ended with status 0, or "".
func (p *program) verdict(output string) string {
	for _, w := range p.want {
		if !w.MatchString(output) {
			return fmt.Sprintf("check: the output has no %q", w)
		}
	}
	for _, n := range p.never {
		if m := n.FindString(output); m != "" {
			return fmt.Sprintf("check: the output has %q", m)
		}
	}
	return ""
}

// programs builds and runs all programs and prints the table.
func (o *options) programs(ctx context.Context) error {
	all, err := readPrograms(o.list)
	if err != nil {
		return err
	}
	lib, err := exec.CommandContext(ctx, o.ferry, "lib").Output()
	if err != nil {
		return fmt.Errorf("ferry lib: %w", err)
	}
	dir, err := os.MkdirTemp("", "ferry-corpus-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Print("| program | project | built in | ran in | result |\n| --- | --- | --- | --- | --- |\n")
	right, tried := 0, 0
	for _, p := range all {
		if o.only != "" && o.only != p.project && o.only != p.name {
			continue
		}
		built, ran, why := o.program(ctx, &p, dir, strings.TrimSpace(string(lib)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		tried++
		if why == "" {
			right++
			why = "right"
		}
		fmt.Printf("| %s | %s | %.1f s | %.1f s | %s |\n", p.name, p.project, built.Seconds(), ran.Seconds(), strings.ReplaceAll(why, "|", "\\|"))
	}
	fmt.Printf("\n%d of %d are right.\n", right, tried)
	return nil
}

// program builds and runs a program. It returns the times and what is wrong.
func (o *options) program(ctx context.Context, p *program, dir, lib string) (built, ran time.Duration, why string) {
	folder := filepath.Join(o.root, p.project, filepath.FromSlash(p.folder))
	binary := filepath.Join(dir, p.name)
	text, built, err := o.command(ctx, folder, nil, o.ferry, append([]string{"cc", "-o", binary}, p.build...)...)
	if err != nil {
		return built, 0, "build: " + o.shorten(text, err)
	}
	env := append(os.Environ(), "LD_LIBRARY_PATH="+lib)
	text, ran, err = o.command(ctx, folder, env, binary, p.args...)
	if o.output != "" {
		os.WriteFile(filepath.Join(o.output, p.name+".txt"), []byte(text), 0o666)
	}
	if err != nil {
		return built, ran, "run: " + o.shorten(text, err)
	}
	return built, ran, p.verdict(text)
}

// command runs a command for at most the time limit, and returns what it printed.
func (o *options) command(ctx context.Context, dir string, env []string, name string, args ...string) (string, time.Duration, error) {
	limited, stop := context.WithTimeout(ctx, o.limit)
	defer stop()
	cmd := exec.CommandContext(limited, name, args...)
	var text bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &text, &text
	cmd.WaitDelay = time.Second
	begin := time.Now()
	err := cmd.Run()
	if limited.Err() != nil {
		err = fmt.Errorf("not ready in %v", o.limit)
	}
	return text.String(), time.Since(begin), err
}

var telling = regexp.MustCompile(`(?i)\berror\b|CUDA_ERROR|not found|undefined|ferry: |failed`)

// shorten returns the first line that tells why, with the error.
func (o *options) shorten(text string, err error) string {
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.ReplaceAll(line, o.root+string(os.PathSeparator), ""))
		if telling.MatchString(line) {
			return fmt.Sprintf("%s (%v)", line, err)
		}
		if line != "" {
			last = line
		}
	}
	return fmt.Sprintf("%s (%v)", last, err)
}
