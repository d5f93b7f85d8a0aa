package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Peer is a program that is measured beside Ferry, in turns with it: for each line
// that it reads it takes one sample and prints the nanoseconds of its parts, or -1
// and a reason.
type Peer struct {
	Name    string
	Command []string
}

// running is a peer that has been started.
type running struct {
	Peer
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

// start starts a peer.
func (p Peer) start() (*running, error) {
	cmd := exec.Command(p.Command[0], p.Command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start peer %s: %w", p.Name, err)
	}
	return &running{p, in, bufio.NewReader(out), cmd}, nil
}

// startAll starts peers that undo stops.
func startAll(peers []Peer, undo *closers) (all []*running, err error) {
	for _, p := range peers {
		r, err := p.start()
		if err != nil {
			return nil, err
		}
		undo.later(nil, r.stop)
		all = append(all, r)
	}
	return all, nil
}

// methods are what a peer that knows several says in its first line.
func (r *running) methods() ([]string, error) {
	line, err := r.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("methods of peer %s: %w", r.Name, err)
	}
	return strings.Fields(line), nil
}

// entrant is the peer in a contest, under a name, asked for a line.
func (r *running) entrant(name, line string) entrant {
	return entrant{name, func() ([]float64, error) { return r.ask(line) }}
}

// ask has the peer take a sample of what a line says, and is its figures.
func (r *running) ask(line string) (figures []float64, err error) {
	text := ""
	if _, err = fmt.Fprintln(r.in, line); err == nil {
		text, err = r.out.ReadString('\n')
	}
	if err == nil {
		figures, err = numbers(text)
	}
	if err != nil {
		return nil, fmt.Errorf("sample %q of peer %s: %w", line, r.Name, err)
	}
	return figures, nil
}

// numbers are those of an answer.
func numbers(answer string) (figures []float64, err error) {
	if reason, refused := strings.CutPrefix(answer, "-1 "); refused {
		return nil, errors.New(strings.TrimSpace(reason))
	}
	for word := range strings.FieldsSeq(answer) {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, err
		}
		figures = append(figures, x)
	}
	return figures, nil
}

// stop ends the peer.
func (r *running) stop() error {
	_ = r.in.Close()
	return r.cmd.Wait()
}
