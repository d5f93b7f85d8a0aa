package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// peerFlags are those that nvcc builds each peer with.
var peerFlags = map[string][]string{
	"calls.c":  {"-O2", "-shared", "-Xcompiler", "-fPIC"}, // loaded, not run
	"link.cu":  {"-O3", "-std=c++17", "-arch=native", "-Xcompiler", "-pthread"},
	"pin.cu":   {"-O2", "-Xcompiler", "-pthread"},
	"pipe.cu":  {"-O2", "-Xcompiler", "-fopenmp"},
	"stage.cu": {"-O3", "-std=c++20", "-arch=native", "-Xcompiler", "-pthread"},
}

// Peers are the programs of internal/bench/peer that are there to be measured beside Ferry.
type Peers struct {
	dir, made string
	commands  map[string][]string
	missing   map[string]error
}

// NewPeers makes peers ready by the names of their sources: "link.cu", "pin.py". In
// dir there are sources, or programs that have been built from them, as link_c from
// link.cu. What is not built is built now, by nvcc, all at once, in a folder of its
// own. Close the result. Peers that cannot be had are told of by [Peers.Missing].
func NewPeers(dir string, names []string) (*Peers, error) {
	made, err := os.MkdirTemp("", "ferry-peers-")
	if err != nil {
		return nil, err
	}
	p := &Peers{dir, made, map[string][]string{}, map[string]error{}}
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
		return []string{"python3", source}, tried("python3", "-c", "import torch")
	}
	out := filepath.Join(p.made, program)
	args := append(slices.Clone(peerFlags[name]), "-o", out, source, "-lcuda")
	return []string{out}, tried("nvcc", args...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tried runs a command, whose output is worth telling if it fails.
func tried(name string, args ...string) error {
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

// command is how to start a peer with arguments, nil if it is missing.
func (p *Peers) command(name string, args ...string) []string {
	if p == nil || p.commands[name] == nil {
		return nil
	}
	return append(slices.Clone(p.commands[name]), args...)
}

// peer is a peer to start, in a list that is empty if it is missing.
func (p *Peers) peer(as, name string, args ...string) []Peer {
	if c := p.command(name, args...); c != nil {
		return []Peer{{as, c}}
	}
	return nil
}

// file is the path of a file that a peer is to read.
func (p *Peers) file(name, text string) (path string, err error) {
	if p == nil {
		return "", nil
	}
	path = filepath.Join(p.made, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Missing says for each peer that could not be had why, in the order of names.
func (p *Peers) Missing() (lines []string) {
	for name, err := range p.missing {
		lines = append(lines, fmt.Sprintf("peer %s: %v", name, err))
	}
	slices.Sort(lines)
	return lines
}

// Close removes what was built.
func (p *Peers) Close() error { return os.RemoveAll(p.made) }
