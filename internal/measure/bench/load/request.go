package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Where the bytes of a file go.
const (
	toOne  = "one"  // all to the first GPU
	toEach = "each" // half to each of two GPUs
	toAll  = "all"  // all to each of two GPUs
)

// request asks a program for a sample, in a line of its standard input. Programs in other languages
// read it, too: METHOD GPUS CHECK DATA BYTES PATH, where the data are the last BYTES bytes of the
// file, from byte DATA on. CHECK is whole or some: how many bytes on the device are compared with the
// file, after the time is taken.
type request struct {
	method, gpus string
	whole        bool
	data, bytes  int64
	path         string
}

func (r request) String() string {
	check := "some"
	if r.whole {
		check = "whole"
	}
	return fmt.Sprintf("%s %s %s %d %d %s", r.method, r.gpus, check, r.data, r.bytes, r.path)
}

// parseRequest reads a line.
func parseRequest(line string) (r request, err error) {
	words := strings.SplitN(strings.TrimSpace(line), " ", 6)
	if len(words) != 6 {
		return r, fmt.Errorf("request %q: has %d words, want 6", line, len(words))
	}
	r = request{method: words[0], gpus: words[1], whole: words[2] == "whole", path: words[5]}
	var wrong [2]error
	r.data, wrong[0] = strconv.ParseInt(words[3], 10, 64)
	r.bytes, wrong[1] = strconv.ParseInt(words[4], 10, 64)
	return r, errors.Join(wrong[:]...)
}

// movedBytes is the figure of an answer that moved other bytes than the request's.
const movedBytes = "moved"

// answer is a sample: the time, and figures by name. As a line it is NANOSECONDS NAME=VALUE...,
// or -1 and the reason why there is none.
type answer struct {
	time    time.Duration
	figures map[string]float64
}

func (a answer) String() string {
	line := strconv.FormatInt(a.time.Nanoseconds(), 10)
	for name, value := range a.figures {
		line += fmt.Sprintf(" %s=%.0f", name, value)
	}
	return line
}

// parseAnswer reads a line.
func parseAnswer(line string) (a answer, err error) {
	line = strings.TrimSpace(line)
	if reason, failed := strings.CutPrefix(line, "-1 "); failed {
		return a, errors.New(reason)
	}
	first, rest, _ := strings.Cut(line, " ")
	ns, err := strconv.ParseInt(first, 10, 64)
	if err != nil || ns <= 0 {
		return a, fmt.Errorf("answer %q: it does not begin with a positive number of nanoseconds", line)
	}
	a = answer{time.Duration(ns), map[string]float64{}}
	for word := range strings.FieldsSeq(rest) {
		name, text, _ := strings.Cut(word, "=")
		if a.figures[name], err = strconv.ParseFloat(text, 64); err != nil {
			return a, fmt.Errorf("answer %q: %w", line, err)
		}
	}
	return a, nil
}
