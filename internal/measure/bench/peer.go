package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Peer is a program that is compared with Ferry. For each line on its standard input it
// takes one sample and prints the nanoseconds of its parts, or -1 and a reason.
type Peer struct {
	Name    string
	Command []string
}

// running is a started peer.
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

// startAll starts peers. undo stops them.
func startAll(peers []Peer, undo *closers) (all []*running, err error) {
	for _, p := range peers {
		r, err := p.start()
		if err != nil {
			return nil, err
		}
		undo.add(nil, r.stop)
		all = append(all, r)
	}
	return all, nil
}

// methods reads the first line of a peer, which lists its methods.
func (r *running) methods() ([]string, error) {
	line, err := r.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("read the methods of peer %s: %w", r.Name, err)
	}
	return strings.Fields(line), nil
}

// entrant returns the peer as an entrant with a name. line is the request for a sample.
func (r *running) entrant(name, line string) entrant {
	return entrant{name, func() ([]float64, error) { return r.ask(line) }}
}

// ask requests a sample with a line and returns the figures.
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

// numbers parses an answer.
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

// peerFlags are the flags with which nvcc builds each peer.
var peerFlags = map[string][]string{
	"calls.c":  {"-O2", "-shared", "-Xcompiler", "-fPIC"}, // a library that is loaded
	"link.cu":  {"-O3", "-std=c++17", "-arch=native", "-Xcompiler", "-pthread"},
	"pin.cu":   {"-O2", "-Xcompiler", "-pthread"},
	"pipe.cu":  {"-O2", "-Xcompiler", "-fopenmp"},
	"serve.cu": {"-O3", "-std=c++17", "-Xcompiler", "-pthread"},
	"stage.cu": {"-O3", "-std=c++20", "-arch=native", "-Xcompiler", "-pthread"},
}

// Peers are the programs of internal/measure/bench/peer that are available on this machine.
type Peers struct {
	dir, built string
	commands   map[string][]string
	missing    map[string]error
}

// NewPeers prepares peers by the names of their sources, such as "link.cu" and "pin.py".
// The folder dir has the sources, or programs that were built from them, such as link_c
// from link.cu. NewPeers builds the others with nvcc, concurrently, in a temporary
// folder. The caller must close the result. [Peers.Missing] lists the peers that are not
// available.
func NewPeers(dir string, names []string) (*Peers, error) {
	built, err := os.MkdirTemp("", "ferry-peers-")
	if err != nil {
		return nil, err
	}
	p := &Peers{dir, built, map[string][]string{}, map[string]error{}}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			command, err := p.prepare(name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				p.missing[name] = err
				return
			}
			p.commands[name] = command
		})
	}
	all.Wait()
	return p, nil
}

// prepare finds or builds a peer.
func (p *Peers) prepare(name string) (command []string, err error) {
	source := filepath.Join(p.dir, name)
	program := strings.TrimSuffix(name, filepath.Ext(name)) + "_c"
	if built := filepath.Join(p.dir, program); exists(built) {
		return []string{built}, nil
	}
	if !exists(source) {
		return nil, fmt.Errorf("there is no %s", source)
	}
	if filepath.Ext(name) == ".py" {
		return []string{"python3", source}, runTool("python3", "-c", "import torch")
	}
	out := filepath.Join(p.built, program)
	args := append(slices.Clone(peerFlags[name]), "-o", out, source, "-lcuda")
	return []string{out}, runTool("nvcc", args...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// runTool runs a command. If it fails, the error has the last line of its output.
func runTool(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	switch text := strings.TrimSpace(string(out)); {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("there is no %s", name)
	case err != nil && text != "":
		return fmt.Errorf("%s: %w: %s", name, err, text[strings.LastIndexByte(text, '\n')+1:])
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// command returns the command line of a peer, or nil if the peer is missing.
func (p *Peers) command(name string, args ...string) []string {
	if p == nil || p.commands[name] == nil {
		return nil
	}
	return append(slices.Clone(p.commands[name]), args...)
}

// peer returns a list with one peer, or an empty list if the peer is missing.
func (p *Peers) peer(as, name string, args ...string) []Peer {
	if c := p.command(name, args...); c != nil {
		return []Peer{{as, c}}
	}
	return nil
}

// file writes a file for a peer and returns its path.
func (p *Peers) file(name, text string) (path string, err error) {
	if p == nil {
		return "", nil
	}
	path = filepath.Join(p.built, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Missing returns a line with the reason for each peer that is not available, by name.
func (p *Peers) Missing() (lines []string) {
	for name, err := range p.missing {
		lines = append(lines, fmt.Sprintf("peer %s: %v", name, err))
	}
	slices.Sort(lines)
	return lines
}

// Close removes the programs that NewPeers built.
func (p *Peers) Close() error { return os.RemoveAll(p.built) }
