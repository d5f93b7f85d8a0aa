package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/dlpack"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/softtest"
	"github.com/ferrygpu/ferry/softgpu"
)

// openSoft opens a software GPU. It skips the test where there is no Python.
func openSoft(t *testing.T, schedule softgpu.Schedule) *ferry.GPU {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no other process to share memory with:", err)
	}
	return softtest.Open(t, schedule)
}

// TestProgram runs the program on the software GPU, with Python in place of PyTorch.
func TestProgram(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		text, err := run(openSoft(t, schedule))
		if err != nil || !strings.HasPrefix(text, "Python in place of PyTorch on soft:h200") {
			t.Errorf("%v: %v\n%s", schedule, err, text)
		}
	}
}

// TestHardware runs the program on a GPU, with PyTorch.
func TestHardware(t *testing.T) {
	gputest.Driver(t)
	gpu, err := ferry.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	text, err := run(gpu)
	if err != nil && strings.Contains(err.Error(), pythonVariable) {
		gputest.Skip(t, err)
	}
	if err != nil || !strings.HasPrefix(text, "PyTorch 2") {
		t.Errorf("%v\n%s", err, text)
	}
	t.Log(text)
}

// TestMissing: the error without Python, without PyTorch and without its GPU says what to do.
func TestMissing(t *testing.T) {
	gpu := openSoft(t, softgpu.Eager)
	for name, c := range map[string]struct{ torch, want string }{
		"no PyTorch":  {"raise ImportError('no module torch')", "no module torch: install PyTorch, or name another Python by FERRY_PYTHON"},
		"for the CPU": {"__version__ = '9.8+cpu'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n", "PyTorch 9.8+cpu finds no GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PYTHONPATH", t.TempDir())
			if err := os.WriteFile(os.Getenv("PYTHONPATH")+"/torch.py", []byte(c.torch), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := start("0")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.hear(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			gputest.CloseAll(t, p)
		})
	}
	t.Setenv(pythonVariable, "/nowhere/python3")
	if _, err := run(gpu); err == nil || !strings.Contains(err.Error(), "start Python, which FERRY_PYTHON can name") {
		t.Errorf("no Python: %v", err)
	}
}

// other starts a script of the test in place of Python. sock is the socket. say and offer are what a
// worker says and sends.
func other(t *testing.T, text string) *python {
	t.Helper()
	path := t.TempDir() + "/python3"
	text = `#!/usr/bin/env python3
import socket, os, sys
sys.path[0] = os.path.dirname(sys.argv[2])
import ferry_dlpack
sock = socket.socket(fileno=3)
def say(text): print(text, flush=True)
def offer(n): ferry_dlpack.send(sock, ferry_dlpack.allocate("float32", n, like=ferry_dlpack.receive(sock)))
` + text
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(pythonVariable, path)
	p, err := start("soft")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAnswers: what another process says is not trusted.
func TestAnswers(t *testing.T) {
	gpu := openSoft(t, softgpu.Eager)
	like, err := ferry.AllocVirtual[float32](gpu, 1, &ferry.VirtualOptions{Share: true})
	if err != nil {
		t.Fatal(err)
	}
	defer like.Close()
	for name, c := range map[string]struct{ script, want string }{
		"it ends":          {"", "the Python process says nothing more: EOF"},
		"no JSON":          {"say('{')", "the Python process says nothing more: unexpected EOF"},
		"an error":         {`say('{"error":"so it is"}')`, "so it is"},
		"no memory":        {"say('{}')", "receive a buffer"},
		"an odd offset":    {`say('{"offset":2}'); offer(2000)`, "a tensor at byte 2 of 8000"},
		"before the start": {`say('{"offset":-4}'); offer(2000)`, "a tensor at byte -4"},
		"behind the end":   {`say('{"offset":4004}'); offer(2000)`, "a tensor at byte 4004"},
		"too few":          {`say('{"offset":0}'); offer(999)`, "a tensor at byte 0 of 3996"},
		"at the end":       {`say('{"offset":4000}'); offer(2000)`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := other(t, c.script)
			if strings.Contains(c.script, "offer") {
				if err := dlpack.Send(p.conn, like, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			memory, _, err := p.receive(gpu, elements)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			gputest.CloseAll(t, memory, p)
		})
	}
}

// TestNothingStays: the folder of the scripts is removed, also after an error.
func TestNothingStays(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	gpu := openSoft(t, softgpu.Eager)
	if _, err := run(gpu); err != nil {
		t.Error(err)
	}
	t.Setenv(pythonVariable, "/nowhere/python3")
	if _, err := run(gpu); err == nil {
		t.Error("no Python, and no error")
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%v stays, %v", left, err)
	}
}
