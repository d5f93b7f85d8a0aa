package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/ferrygpu/ferry"
)

//go:embed worker.py
var worker string

// pythonVariable names the Python to run.
const pythonVariable = "FERRY_PYTHON"

// python is the other process. It is used by one goroutine at a time.
type python struct {
	cmd  *exec.Cmd
	conn *net.UnixConn
}

// request is what Go asks for, and answer what Python says.
type (
	request struct {
		Do string `json:"do"`
		N  int    `json:"n,omitempty"`
	}
	answer struct {
		Error  string  `json:"error"`
		Name   string  `json:"name"`   // of the library
		Sum    float64 `json:"sum"`    // of x
		Offset int     `json:"offset"` // of the tensor in its memory, in bytes
		Size   int     `json:"size"`   // of the memory, in bytes
		Wrong  int     `json:"wrong"`  // elements
	}
)

// startPython starts the other process, which uses the device of the GPU.
func startPython(gpu *ferry.GPU) (*python, error) {
	if gpu.Emulated() {
		return start("soft")
	}
	return start(strconv.Itoa(int(gpu.CUDevice())))
}

func start(device string) (*python, error) {
	name := os.Getenv(pythonVariable)
	if name == "" {
		name = "python3"
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(name, "-c", worker, device)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{theirs}, os.Stderr // descriptor 3 there
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start Python, which %s can name: %w", pythonVariable, err), ours.Close())
	}
	return &python{cmd, ours}, nil
}

// Close ends the other process.
func (p *python) Close() error {
	return errors.Join(p.conn.Close(), p.cmd.Wait())
}

// ask sends a request with descriptors, and returns the answer with the one that came.
func (p *python) ask(r *request, files []*os.File) (*answer, *os.File, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	if _, _, err := p.conn.WriteMsgUnix(text, rightsOf(files), nil); err != nil {
		return nil, nil, err
	}
	buffer, rights := make([]byte, 4096), make([]byte, 128)
	n, nr, _, _, err := p.conn.ReadMsgUnix(buffer, rights)
	if err != nil {
		return nil, nil, fmt.Errorf("the Python process has ended: %w", err)
	}
	f, err := received(rights[:nr])
	if err != nil {
		return nil, nil, err
	}
	a := new(answer)
	if err = json.Unmarshal(buffer[:n], a); err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil && f != nil {
		err, f = errors.Join(err, f.Close()), nil
	}
	return a, f, err
}

// scale lets Python compute in two buffers. The work on them must have ended before, and the
// descriptors may be closed after.
func (p *python) scale(gpu *ferry.GPU, x, y *ferry.Device[float32]) (*answer, error) {
	if err := gpu.Wait(context.Background()); err != nil {
		return nil, err
	}
	fx, err := ferry.Share(x)
	if err != nil {
		return nil, err
	}
	defer fx.Close()
	fy, err := ferry.Share(y)
	if err != nil {
		return nil, err
	}
	defer fy.Close()
	a, _, err := p.ask(&request{Do: "scale", N: x.Len()}, []*os.File{fx, fy})
	return a, err
}

// take returns memory of Python, and the tensor in it. Other tensors can be in the memory, too.
func (p *python) take(gpu *ferry.GPU) (memory, z *ferry.Device[float32], err error) {
	a, f, err := p.ask(&request{Do: "make", N: elements}, nil)
	if err != nil {
		return nil, nil, err
	}
	if f == nil {
		return nil, nil, errors.New("no descriptor came")
	}
	defer f.Close()
	first := a.Offset / 4
	if a.Offset%4 != 0 || first < 0 || a.Size < 0 || first > a.Size/4-elements {
		return nil, nil, fmt.Errorf("a tensor at byte %d of %d cannot be", a.Offset, a.Size)
	}
	if memory, err = ferry.Import[float32](gpu, f, a.Size/4); err != nil {
		return nil, nil, err
	}
	return memory, memory.Range(first, first+elements), nil
}
