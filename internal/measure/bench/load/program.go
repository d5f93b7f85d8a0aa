package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// program answers requests on its standard input. Its first line says that it is ready.
type program struct {
	command []string
	// fresh means a new process for each request, so that nothing is page-locked yet. With one GPU in
	// the request, the process sees one.
	fresh bool

	cmd *exec.Cmd // nil if it does not run
	in  io.WriteCloser
	out *bufio.Reader
}

// ask sends a request and returns the answer. It starts the program if need be.
func (p *program) ask(r request) (a answer, err error) {
	if p.cmd == nil {
		if err := p.start(p.fresh && r.gpus == toOne); err != nil {
			return a, errors.Join(err, p.stop())
		}
	}
	text := ""
	if _, err = fmt.Fprintln(p.in, r); err == nil {
		text, err = p.out.ReadString('\n')
	}
	if err != nil {
		return a, errors.Join(fmt.Errorf("%s: it has ended: %w", p.command[0], err), p.stop())
	}
	if p.fresh {
		if err := p.stop(); err != nil {
			return a, err
		}
	}
	return parseAnswer(text)
}

// start starts the program and waits until it is ready.
func (p *program) start(oneGPU bool) (err error) {
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Stderr = os.Stderr
	if oneGPU {
		cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=0")
	}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.out = cmd, bufio.NewReader(out)
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("%s: first line %q, want ready: %w", p.command[0], line, err)
	}
	return nil
}

// stop ends the program. It is killed if it does not end by itself.
func (p *program) stop() error {
	if p.cmd == nil {
		return nil
	}
	cmd := p.cmd
	p.cmd = nil
	_ = p.in.Close()
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	return cmd.Wait()
}
