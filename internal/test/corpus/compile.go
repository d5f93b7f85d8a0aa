package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/compile"
)

// outcome is what became of a file.
type outcome int

const (
	accepted outcome = iota
	refused          // an error that says what Ferry does not have
	failed           // another error
)

func (o outcome) String() string { return [...]string{"accepted", "refused", "failed"}[o] }

// result is the outcome of a file with its first error.
type result struct {
	outcome
	why string
}

// counts count outcomes.
type counts [3]int

func (c counts) row(name string) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d |\n", name, c[accepted]+c[refused]+c[failed], c[accepted], c[refused], c[failed])
}

// compile compiles all files and prints the table.
func (o *options) compile(ctx context.Context, all []*project) error {
	fmt.Print("| project | files | accepted | refused by name | failed |\n| --- | --- | --- | --- | --- |\n")
	var total counts
	reasons := map[string]int{}
	var lines []string
	for _, p := range all {
		var wanted []file
		for _, f := range p.files {
			if o.wants(p, f) {
				wanted = append(wanted, f)
			}
		}
		if wanted == nil {
			continue
		}
		var c counts
		for i, r := range o.project(ctx, p, wanted) {
			c[r.outcome]++
			total[r.outcome]++
			if r.outcome != accepted {
				reasons[kind(r.why)]++
				lines = append(lines, fmt.Sprintf("%s %s/%s: %s", r.outcome, p.name, wanted[i].path, r.why))
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Print(c.row(p.name))
	}
	fmt.Print(total.row("all"))
	if o.why {
		printReasons(reasons, lines)
	}
	return nil
}

// printReasons prints how many files have each kind of first error, and each file with its own.
func printReasons(reasons map[string]int, lines []string) {
	fmt.Print("\n| files | first error |\n| --- | --- |\n")
	for _, k := range byCount(reasons) {
		fmt.Printf("| %d | %s |\n", reasons[k], strings.ReplaceAll(k, "|", "\\|"))
	}
	fmt.Println()
	for _, l := range lines {
		fmt.Println(l)
	}
}

// project compiles files of a project, some at once.
func (o *options) project(ctx context.Context, p *project, files []file) []result {
	results := make([]result, len(files))
	var all sync.WaitGroup
	slots := make(chan struct{}, max(1, o.jobs))
	for i, f := range files {
		slots <- struct{}{}
		all.Go(func() {
			results[i] = compileFile(ctx, filepath.Join(o.root, p.name), f)
			<-slots
		})
	}
	all.Wait()
	return results
}

// compileFile does for a file what ferry compile FILE -I ... -D ... does.
func compileFile(ctx context.Context, root string, f file) result {
	include, define := f.options(root)
	_, err := compile.File(ctx, filepath.Join(root, filepath.FromSlash(f.path)), &compile.Options{Include: include, Define: define})
	if err == nil {
		return result{}
	}
	why := firstError(err)
	if why == "" {
		why, _, _ = strings.Cut(err.Error(), "\n")
	}
	why = strings.ReplaceAll(why, root+string(os.PathSeparator), "")
	if refusedByName(err.Error()) {
		return result{refused, why}
	}
	return result{failed, why}
}

// firstError returns the place and the message of the first error of the compiler, or "".
func firstError(err error) string {
	e, ok := errors.AsType[*compile.Error](err)
	if !ok {
		return ""
	}
	for _, d := range e.Diagnostics {
		if d.Severity == "error" {
			text, _, _ := strings.Cut(d.String(), "\n")
			return text
		}
	}
	return ""
}

// refusals match the errors in which Ferry says what it does not have.
var refusals = regexp.MustCompile(`belongs to the CUDA toolkit|[Ff]erry has no|[Ff]erry does not have|not supported by Ferry`)

func refusedByName(text string) bool { return refusals.MatchString(text) }

var (
	place  = regexp.MustCompile(`^\S+?:\d+(:\d+)?: `)
	quoted = regexp.MustCompile(`'[^']*'`)
)

// kind returns an error without its place, and without types longer than a word or two.
func kind(why string) string {
	why = strings.TrimPrefix(place.ReplaceAllString(why, ""), "error: ")
	return quoted.ReplaceAllStringFunc(why, func(s string) string {
		if len(s) > 40 {
			return "'...'"
		}
		return s
	})
}
