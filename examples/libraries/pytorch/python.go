package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/dlpack"
)

//go:embed worker.py
var worker string

// pythonVariable names the Python to run.
const pythonVariable = "FERRY_PYTHON"

// python is the other process. It is used by one goroutine at a time.
type python struct {
	cmd   *exec.Cmd
	conn  *net.UnixConn // for memory
	told  *json.Decoder // what Python says
	stdin io.WriteCloser
	dir   string // of the scripts
}

// news is what Python says.
type news struct {
	Error  string  `json:"error"`
	Name   string  `json:"name"`   // of the library
	Sum    float64 `json:"sum"`    // of x
	Offset int     `json:"offset"` // of the tensor in the memory that comes next, in bytes
	Wrong  int     `json:"wrong"`  // elements
}

// startPython starts the other process, which uses the device of the GPU.
func startPython(gpu *ferry.GPU) (*python, error) {
	if gpu.Emulated() {
		return start("soft")
	}
	return start(strconv.Itoa(int(gpu.CUDevice())))
}

func start(device string) (*python, error) {
	p := new(python)
	err := p.write()
	if err == nil {
		err = p.start(device)
	}
	if err != nil {
		return nil, errors.Join(err, p.clear())
	}
	return p, nil
}

// write writes the scripts to a folder.
func (p *python) write() (err error) {
	if p.dir, err = os.MkdirTemp("", "ferry-pytorch-"); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(p.dir, "ferry_dlpack.py"), []byte(dlpack.PythonModule), 0o600),
		os.WriteFile(filepath.Join(p.dir, "worker.py"), []byte(worker), 0o600))
}

// start starts the worker, which uses a device.
func (p *python) start(device string) error {
	name := os.Getenv(pythonVariable)
	if name == "" {
		name = "python3"
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	p.conn = ours
	p.cmd = exec.Command(name, "-B", filepath.Join(p.dir, "worker.py"), device) // -B: it writes no files
	p.cmd.ExtraFiles, p.cmd.Stderr = []*os.File{theirs}, os.Stderr              // descriptor 3 there
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.told = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start Python, which %s can name: %w", pythonVariable, err)
	}
	return nil
}

// clear gives back what the other process does not need.
func (p *python) clear() (err error) {
	if p.conn != nil {
		err = p.conn.Close()
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// Close ends the other process: it reads nothing more, and waits for nothing.
func (p *python) Close() error {
	return errors.Join(p.stdin.Close(), p.clear(), p.cmd.Wait())
}

// hear waits until Python says something.
func (p *python) hear() (*news, error) {
	n := new(news)
	if err := p.told.Decode(n); err != nil {
		return nil, fmt.Errorf("the Python process says nothing more: %w", err)
	}
	if n.Error != "" {
		return nil, errors.New(n.Error)
	}
	return n, nil
}

// goOn tells Python that Go has done its part.
func (p *python) goOn() error {
	_, err := p.stdin.Write([]byte("\n"))
	return err
}

// receive returns memory of Python, and the tensor in it, which is at the offset that Python has said.
// Other tensors can be in the memory, too.
func (p *python) receive(gpu *ferry.GPU, n int) (memory *dlpack.Array[float32], z *ferry.Device[float32], err error) {
	said, err := p.hear()
	if err != nil {
		return nil, nil, err
	}
	if memory, err = dlpack.Receive[float32](gpu, p.conn); err != nil {
		return nil, nil, err
	}
	whole, is := memory.Memory().(*ferry.Device[float32])
	first := said.Offset / 4
	if !is || said.Offset%4 != 0 || first < 0 || first > whole.Len()-n {
		return nil, nil, errors.Join(fmt.Errorf("a tensor at byte %d of %d cannot be", said.Offset, memory.Memory().Size()), memory.Close())
	}
	return memory, whole.Range(first, first+n), nil
}
