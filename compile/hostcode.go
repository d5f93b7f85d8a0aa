package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file leaves out host code that does not compile, so that it never stops device code.
// Clang compiles; where it reports an error in host code, the statement is blanked, and clang
// compiles again. A header that is not there becomes an empty one. What is left out is at most
// host code or a whole declaration: device code that needs it is then an error of its own.

// maxRounds is how often a source is compiled at most.
const maxRounds = 40

// hostCode is what is left out of a source and its headers.
type hostCode struct {
	r       *clangRun
	files   map[string]*edited // by absolute path
	order   []*edited
	missing []Diagnostic      // the headers that are not there
	markers map[string]bool   // words that mean the device; nil if not known yet
	kernels map[string]bool   // those that mean a kernel
	active  map[string][]bool // for each file, which lines the preprocessor leaves, from 1
	left    []Diagnostic      // errors in host code, each of which was left out
}

// trouble is an error with the places that lead to it.
type trouble struct {
	Diagnostic
	notes  []Diagnostic
	parent []Diagnostic // the lines that include its file, the outermost first
}

// includedForm matches a line about a header that has a message.
var includedForm = regexp.MustCompile(`^(?:In file included from|\s+from) (.+?):(\d+)(?::\d+)?[:,]$`)

// troubles returns the errors in clang's messages.
func troubles(log string, u *unit) (all []trouble) {
	var stack []Diagnostic
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		if m := includedForm.FindStringSubmatch(line); m != nil {
			stack = append(stack, Diagnostic{File: m[1], Line: atoi(m[2])})
			continue
		}
		parsed := parseClang(line, u)
		if len(parsed) == 0 {
			continue
		}
		switch d := parsed[0]; {
		case d.Severity == severityError:
			all = append(all, trouble{Diagnostic: d, parent: stack})
		case d.Severity == severityNote && len(all) > 0:
			all[len(all)-1].notes = append(all[len(all)-1].notes, d)
		}
		stack = nil
	}
	return all
}

// leaveOut changes the source after a run with errors, and reports whether it is worth to run
// again.
func (h *hostCode) leaveOut(ctx context.Context, log string) (changed bool, err error) {
	for _, f := range h.order {
		f.done = nil
	}
	for _, t := range troubles(log, h.r.u) {
		ok, err := h.repair(ctx, &t)
		if err != nil {
			return false, err
		}
		changed = changed || ok
	}
	if !changed {
		return false, nil
	}
	return true, h.write()
}

// repair leaves out what an error is about.
func (h *hostCode) repair(ctx context.Context, t *trouble) (bool, error) {
	if name := missingHeader(t.Message); name != "" {
		return h.emptyHeader(t, name)
	}
	places := append([]Diagnostic{t.Diagnostic}, t.notes...)
	for i, place := range places {
		if i > 0 && !strings.Contains(place.Message, "requested here") && !strings.Contains(place.Message, "previous declaration is here") {
			continue
		}
		f := h.file(place.File)
		if f == nil {
			continue
		}
		if h.markers == nil {
			if err := h.preprocess(ctx); err != nil {
				return false, err
			}
		}
		if rewrite := rewriteFor(t.Message); rewrite != nil {
			if rewrite(f, h.outline(f), f.offset(place.Line, place.Column)) {
				return true, nil
			}
			continue
		}
		if h.drop(f, place) {
			d := t.Diagnostic
			h.left = append(h.left, d)
			return true, nil
		}
		return false, nil
	}
	return false, nil
}

// emptyHeader makes an empty header of that name.
func (h *hostCode) emptyHeader(t *trouble, name string) (bool, error) {
	if slices.ContainsFunc(h.missing, func(d Diagnostic) bool { return d.Message == t.Message }) {
		return false, nil
	}
	h.missing = append(h.missing, t.Diagnostic)
	h.markers = nil
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		f := h.file(t.File)
		if f == nil {
			return false, nil
		}
		from := f.offset(t.Line, 1)
		wipe(f.text, span{from, lineEnd(f.text, from)})
		return true, nil
	}
	path := filepath.Join(h.r.missing, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	var text []byte
	if toolkitHeaders.MatchString(name) {
		text = []byte(ofLibraries)
	}
	return true, os.WriteFile(path, text, 0o600)
}

// ofLibraries is what headers of the toolkit's libraries include.
const ofLibraries = "#pragma once\n#include <cuComplex.h>\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n"

// file returns a file that may be changed: the source, or a header that is neither Ferry's nor
// the system's.
func (h *hostCode) file(shown string) *edited {
	if shown == "" || strings.HasPrefix(shown, "<") {
		return nil
	}
	path, err := filepath.Abs(shown)
	if shown == h.r.u.name {
		path = h.r.source
	}
	if f := h.files[path]; f != nil || err != nil {
		return f
	}
	if h.r.system != nil && h.r.system.has(path) && !h.r.u.includes(path) {
		return nil
	}
	text := []byte(readText(path, maxSource))
	if shown == h.r.u.name {
		text = h.r.u.source
	}
	if len(text) == 0 {
		return nil
	}
	f := &edited{path: path, shown: shown, original: text, text: bytes.Clone(text), tries: map[int]int{}}
	h.files[path] = f
	h.order = append(h.order, f)
	return f
}

// includes reports whether a file is below one of the caller's directories.
func (u *unit) includes(path string) bool {
	return slices.ContainsFunc(u.o.Include, func(dir string) bool {
		abs, err := filepath.Abs(dir)
		return err == nil && strings.HasPrefix(path, abs+string(filepath.Separator))
	})
}

// write writes the changed files, and the overlay by which clang finds them.
func (h *hostCode) write() error {
	type entry struct {
		Name     string `json:"name"`
		Type     string `json:"type"`
		Contents any    `json:"contents,omitempty"`
		External string `json:"external-contents,omitempty"`
	}
	var roots []entry
	for i, f := range h.order {
		if f.path == h.r.source {
			text := append([]byte(lineDirective(h.r.u.name, 1)), f.text...)
			if err := os.WriteFile(h.r.source, text, 0o600); err != nil {
				return err
			}
			continue
		}
		changed := filepath.Join(h.r.dir, "edited", fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(changed), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(changed, f.text, 0o600); err != nil {
			return err
		}
		roots = append(roots, entry{Name: filepath.Dir(f.path), Type: "directory",
			Contents: []entry{{Name: filepath.Base(f.path), Type: "file", External: changed}}})
	}
	if len(roots) == 0 {
		return nil
	}
	text, err := json.Marshal(map[string]any{"version": 0, "use-external-names": false, "overlay-relative": false, "roots": roots})
	if err != nil {
		return err
	}
	h.r.overlay = filepath.Join(h.r.dir, "overlay.yaml")
	return os.WriteFile(h.r.overlay, text, 0o600)
}

// The words that make a function or variable one of the device.
var deviceWords = []string{"__global__", "__device__", "__constant__", "__shared__", "__managed__"}

var (
	markerForm = regexp.MustCompile(`^# (\d+) "(.*?)"`)
	defineForm = regexp.MustCompile(`^#define (\w+)(?:\([^)]*\))?\s?(.*)$`)
	wordForm   = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// preprocess finds the macros of the source that stand for deviceWords, and the lines that
// are left out by conditionals.
func (h *hostCode) preprocess(ctx context.Context) error {
	text, err := h.r.preprocess(ctx)
	if err != nil {
		return err
	}
	bodies := map[string]string{}
	h.active = map[string][]bool{}
	file, line := "", 0
	for text := range strings.Lines(text) {
		text = strings.TrimRight(text, "\r\n")
		if m := markerForm.FindStringSubmatch(text); m != nil {
			file, line = m[2], atoi(m[1])
			continue
		}
		if m := defineForm.FindStringSubmatch(text); m != nil {
			bodies[m[1]] += " " + m[2]
		}
		if strings.TrimSpace(text) != "" {
			lines := h.active[file]
			for len(lines) <= line {
				lines = append(lines, false)
			}
			lines[line] = true
			h.active[file] = lines
		}
		line++
	}
	h.markers = words(bodies, deviceWords)
	h.kernels = words(bodies, deviceWords[:1])
	return nil
}

// words returns the words, and all macros that contain one of them.
func words(bodies map[string]string, from []string) map[string]bool {
	all := map[string]bool{}
	for _, w := range from {
		all[w] = true
	}
	for more := true; more; {
		more = false
		for name, body := range bodies {
			if !all[name] && hasWord(all, []byte(body)) {
				all[name], more = true, true
			}
		}
	}
	return all
}

// hasWord reports whether a text has one of the words.
func hasWord(words map[string]bool, text []byte) bool {
	for _, w := range wordForm.FindAll(text, -1) {
		if words[string(w)] {
			return true
		}
	}
	return false
}

// outline returns the outline of a file.
func (h *hostCode) outline(f *edited) []byte { return outline(f.text, h.active[f.shown]) }

// drop leaves out what stands at a place, if it is host code.
func (h *hostCode) drop(f *edited, place Diagnostic) bool {
	at := f.offset(place.Line, place.Column)
	if slices.ContainsFunc(f.done, func(s span) bool { return s.has(at) }) {
		return true
	}
	text := h.outline(f)
	pieces := around(text, at)
	if len(pieces) == 0 || h.forDevice(text, pieces, at) {
		return false
	}
	body, top := hostBody(pieces)
	f.tries[top.from]++
	hasKernel := hasWord(h.kernels, text[body.from:body.to]) // a namespace that a macro opens looks like a function
	if f.tries[top.from] > maxRounds/2 && body != (span{}) && !hasKernel {
		return f.blank(text, body, inFunction)
	}
	last := pieces[len(pieces)-1]
	switch {
	case body == (span{}):
		p := outermostClass(pieces)
		if p.kind == scope || hasWord(h.kernels, text[p.from:p.to]) {
			return false
		}
		return f.blank(text, p.span, inNamespace)
	case last.kind == control && last.head.has(at):
		return f.condition(text, last)
	case last.kind == plain:
		return f.statement(text, last, at)
	}
	return !hasKernel && f.blank(text, body, inFunction)
}

// forDevice reports whether a place belongs to a function or variable of the device.
func (h *hostCode) forDevice(text []byte, pieces []piece, at int) bool {
	for _, p := range pieces {
		s := p.span
		if p.body.has(at) {
			s.to = p.body.from
		} else if p.kind == function {
			s = span{p.from, p.head.to}
		}
		if hasWord(h.markers, text[s.from:s.to]) {
			return true
		}
	}
	return false
}

// hostBody returns the body of the outermost function around a place, and that function.
func hostBody(pieces []piece) (body span, top piece) {
	for _, p := range pieces {
		if p.kind == function {
			if p == pieces[len(pieces)-1] {
				break // in its head
			}
			return p.body, p
		}
	}
	return span{}, pieces[0]
}

// outermostClass returns the outermost class of a member, or the declaration itself.
func outermostClass(pieces []piece) piece {
	for _, p := range pieces {
		if p.kind == class || p == pieces[len(pieces)-1] {
			return p
		}
	}
	return pieces[0]
}

// warnings tells what was left out, and which kernels are therefore not in the PTX.
func (h *hostCode) warnings(ptx []byte) (all []Diagnostic) {
	for _, d := range h.missing {
		d.Severity, d.Message = severityWarning, d.Message+"; device code does not need it"
		all = append(all, d)
	}
	if len(h.left) > 0 {
		d := h.left[0]
		d.Severity, d.Message = severityWarning, "host code left out: "+d.Message
		if n := len(h.left) - 1; n > 0 {
			d.Message += fmt.Sprintf(" (and %d more)", n)
		}
		all = append(all, d)
	}
	for _, name := range h.lost(ptx) {
		all = append(all, Diagnostic{File: h.r.u.name, Severity: severityWarning,
			Message: "kernel " + name + " is a template, whose launch in host code does not compile: it is not in the PTX"})
	}
	return all
}

// lost returns the names of kernels whose launches were left out and that are not in the PTX.
func (h *hostCode) lost(ptx []byte) (names []string) {
	for _, f := range h.order {
		for _, name := range f.launches {
			name, _, _ = strings.Cut(name, "<")
			name = strings.TrimSpace(name[strings.LastIndexByte(name, ':')+1:])
			mangled := regexp.MustCompile(`\.entry (` + name + `|_Z\w*?` + strconv.Itoa(len(name)) + name + `\w*)\(`)
			if !mangled.Match(ptx) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// errors returns the errors of the last run that are not in host code, and before them the
// headers that are not there.
func (h *hostCode) errors(log string) []Diagnostic {
	return append(slices.Clone(h.missing), parseClang(log, h.r.u)...)
}
