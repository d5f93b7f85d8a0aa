package kerneltest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/internal/measure/runner"
)

// describe adds the kernel, device, configuration and seed to the error of a launch, and
// the command that makes the launch again.
func (s *session) describe(l launchSpec, err error) error {
	build := ""
	if l.other {
		build = " of Case.Other"
	}
	head := fmt.Sprintf("%s%s on %v, %v, N=%d, seed %d:", s.c.name(), build, s.g, l.config, l.n, s.c.Seed)
	text := strings.ReplaceAll(err.Error(), "\n", "\n  ")
	return &failure{text: head + "\n  " + text + "\n" + s.command(l), err: err}
}

// failure is a launch that failed.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// command returns the "ferry run" command for a launch.
func (s *session) command(l launchSpec) string {
	if s.c.Launch != nil {
		return "  (launched by Case.Launch, so there is no ferry run command)"
	}
	if l.config.Cooperative || l.config.Programmatic || l.config.Cluster.X != 0 {
		return "  (ferry run has no flags for this kind of launch)"
	}
	file, note := s.c.File, ""
	switch {
	case l.other:
		file, note = "FILE.ptx", " (FILE.ptx is Case.Other)"
	case file == "":
		file, note = "FILE.ptx", " (FILE.ptx is Case.PTX)"
	}
	words := []string{"go run github.com/ferrygpu/ferry/cmd/ferry run", quote(file), "--kernel", quote(s.c.Kernel),
		"--grid", runner.ShapeText(l.config.Grid), "--block", runner.ShapeText(l.config.Block)}
	if l.config.SharedBytes != 0 {
		words = append(words, "--shared", fmt.Sprint(l.config.SharedBytes))
	}
	if s.c.Seed != 0 {
		words = append(words, "--seed", fmt.Sprint(s.c.Seed))
	}
	words = append(words, "--device", quote(info.Of(s.g).Opened))
	for _, text := range s.c.Args {
		text, _ = runner.Expand(text, l.n)
		words = append(words, quote(text))
	}
	return "  reproduce" + note + ": " + strings.Join(words, " ")
}

// quote quotes a word for a shell, if it must be.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-=:,./@+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// explain adds the line of the PTX and the addresses of the buffers to a kernel's fault.
func (t *trial) explain(err error) error {
	fault, ok := errors.AsType[*cu.Fault](err)
	if !ok {
		return err
	}
	var b strings.Builder
	image, _ := t.c.image()
	if t.other {
		image = t.c.Other
	}
	if fault.Line > 0 && image != nil {
		lines := strings.SplitN(string(image), "\n", fault.Line+1)
		if fault.Line <= len(lines) {
			fmt.Fprintf(&b, "\nPTX line %d: %s", fault.Line, strings.TrimSpace(lines[fault.Line-1]))
		}
	}
	for i, buf := range t.buffers {
		if buf != nil && fault.Addr != 0 {
			fmt.Fprintf(&b, "\nargument %d, %s: %s from %#x", i, short(t.args[i].Text), counted(len(t.before[i]), "byte", "bytes"), uint64(buf.address))
		}
	}
	return fmt.Errorf("%w%s", err, b.String())
}

// counted returns a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// short cuts the text of an argument for a message.
func short(text string) string {
	if len(text) <= 60 {
		return text
	}
	return text[:57] + "..."
}
