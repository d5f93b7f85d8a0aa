package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/trace"
)

// flagsOfWords are the flags that people leave out before a value, and what such values look like.
// The first flag that a command has and whose values look like the word is proposed.
var flagsOfWords = []struct {
	flag string
	is   func(word string) bool
}{
	{"order", func(word string) bool { return word == "depth" || word == "breadth" }},
	{"device", func(word string) bool { return deviceOf(word) != "" }},
	{"ptx", isPTX},
	{"kernel", isPTX},
	{"read", func(word string) bool { return filepath.Ext(word) == ".json" }},
	{"in", regexp.MustCompile(`^[0-9]+([kKMG]i?)?B?$`).MatchString},
	{"only", isKind},
}

func isPTX(word string) bool { return filepath.Ext(word) == ".ptx" }

// isKind reports whether a word is part of the name of a kind of "ferry bench".
func isKind(word string) bool {
	return slices.ContainsFunc(grid.Operations.Kinds(), func(kind string) bool { return strings.Contains(kind, word) })
}

// deviceOf returns the device that a word means: soft:h200 for h200. It returns "" for no device.
func deviceOf(word string) string {
	kind, _, _ := strings.Cut(word, ":")
	switch {
	case kind == "soft" || kind == "cuda":
		return word
	case slices.Contains(profile.Names(), word):
		return "soft:" + word
	}
	return ""
}

// instead returns what to type instead of a word that a command does not expect, as a question
// after a semicolon. It returns "" if nothing is likely.
func instead(c *cobra.Command, word string) string {
	for _, f := range flagsOfWords {
		if c != nil && c.Flags().Lookup(f.flag) != nil && f.is(word) {
			value := shellWord(word)
			if f.flag == "device" {
				value = shellWord(deviceOf(word))
			}
			return "; did you mean " + c.CommandPath() + " --" + f.flag + " " + value + "?"
		}
	}
	return ask(fileCommand(word))
}

// ask returns the question whether a command was meant, or "" for none.
func ask(command string) string {
	if command == "" {
		return ""
	}
	return "; did you mean " + command + "?"
}

// readers are the commands that read documents, by their schemas without the version.
var readers = map[string]string{
	"ferry.trace": "ferry trace", "ferry.grid": "ferry bench --read", "ferry.compare": "ferry profile fit", "ferry.profile": "ferry profile show",
}

// fileCommand returns the command that reads a file, by its name or its schema. It returns "" for a
// file that is not there, or that no command reads.
func fileCommand(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	word := shellWord(path)
	switch filepath.Ext(path) {
	case ".ptx":
		return "ferry info --kernel " + word
	case ".cu":
		return "ferry compile " + word
	case ".safetensors", ".gguf":
		return "ferry load " + word
	case ".json":
		name, _, _ := strings.Cut(schemaOf(path), "/")
		if command := readers[name]; command != "" {
			return command + " " + word
		}
	case "":
		if info.Mode().Perm()&0o111 != 0 {
			return "ferry trace -- " + word
		}
	}
	return ""
}

// schemaText is the schema of a document, which stands at its begin.
var schemaText = regexp.MustCompile(`"schema": ?"([^"]*)"`)

// schemaOf returns the schema of a document, or "".
func schemaOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	begin, _ := io.ReadAll(io.LimitReader(f, 4<<10))
	if m := schemaText.FindSubmatch(begin); m != nil {
		return string(m[1])
	}
	return ""
}

// dashesMissing is the error of a command whose program lacks the -- before it.
func dashesMissing(c *cobra.Command, words []string) error {
	line := []string{c.CommandPath()}
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Shorthand != "" {
			line = append(line, "-"+f.Shorthand, shellWord(f.Value.String()))
			return
		}
		line = append(line, "--"+f.Name+"="+shellWord(f.Value.String()))
	})
	line = append(line, "--")
	for _, w := range words {
		line = append(line, shellWord(w))
	}
	return badUsage("want -- before the program, as in %s", strings.Join(line, " "))
}

// readRecording reads a recording. Its error for another file says what reads that.
func readRecording(path string) (*trace.Recording, error) {
	rec, err := trace.ReadFile(path)
	if other := fileCommand(path); errors.Is(err, trace.ErrNotRecording) && other != "" && other != "ferry trace "+shellWord(path) {
		return nil, badRecording{err, ask(other)}
	}
	return rec, err
}

// badRecording is the error of a file that another command reads.
type badRecording struct {
	error
	ask string
}

func (e badRecording) Error() string { return e.error.Error() + e.ask }

func (e badRecording) Unwrap() error { return e.error }
