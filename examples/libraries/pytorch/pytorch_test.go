package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// openSoft opens a software GPU. At the end of the test no check of memory may have found anything.
func openSoft(t *testing.T, schedule softgpu.Schedule) *ferry.GPU {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	d, err := softgpu.Open(softgpu.Options{Schedule: schedule})
	if err != nil {
		t.Fatal(err)
	}
	checked := check.Wrap(d, check.Options{})
	gpu, err := ferry.OpenDriver(checked, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gputest.CloseAll(t, gpu)
		for _, f := range checked.Findings() {
			if !f.Note {
				t.Errorf("%v", f)
			}
		}
	})
	return gpu
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
		t.Skip(err)
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
			if _, _, err := p.ask(&request{Do: "start"}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
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

// other starts a script of the test in place of Python. sock is the socket.
func other(t *testing.T, text string) *python {
	t.Helper()
	path := t.TempDir() + "/python3"
	text = "#!/usr/bin/env python3\nimport socket, os, json\nsock = socket.socket(fileno=3)\nsock.recv(4096)\n" + text
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

// TestAnswers: what another process answers is not trusted.
func TestAnswers(t *testing.T) {
	gpu := openSoft(t, softgpu.Eager)
	const memory = "fd = os.memfd_create('m')\nos.ftruncate(fd, 1 << 20)\n"
	for name, c := range map[string]struct{ script, want string }{
		"it ends":             {"", "the Python process has ended"},
		"no JSON":             {"sock.send(b'{')", "unexpected end of JSON"},
		"no memory":           {"sock.send(b'{}')", "no descriptor came"},
		"an error and memory": {memory + "socket.send_fds(sock, [b'{\"error\":\"so it is\"}'], [fd])", "so it is"},
		"two descriptors":     {memory + "socket.send_fds(sock, [b'{}'], [fd, fd])", "2 descriptors came, want 1"},
		"an odd offset":       {memory + "socket.send_fds(sock, [b'{\"size\":1048576,\"offset\":2}'], [fd])", "a tensor at byte 2 of 1048576"},
		"before the start":    {memory + "socket.send_fds(sock, [b'{\"size\":1048576,\"offset\":-4}'], [fd])", "a tensor at byte -4"},
		"behind the end":      {memory + "socket.send_fds(sock, [b'{\"size\":1048576,\"offset\":1044580}'], [fd])", "a tensor at byte 1044580"},
		"less memory":         {memory + "socket.send_fds(sock, [b'{\"size\":4194304}'], [fd])", "the descriptor has 1048576 bytes"},
		"other memory":        {memory + "socket.send_fds(sock, [b'{\"size\":1048576}'], [fd])", "CUDA_ERROR_INVALID_VALUE"},
	} {
		t.Run(name, func(t *testing.T) {
			p := other(t, c.script)
			if _, _, err := p.take(gpu); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			gputest.CloseAll(t, p)
		})
	}
}
