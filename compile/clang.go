package compile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ferrygpu/ferry/kernels"
)

// compileClang compiles with clang.
func compileClang(ctx context.Context, name string, source []byte, o *Options) (*Result, error) {
	path, err := exec.LookPath("clang-19")
	if err != nil {
		return nil, &NotFoundError{}
	}
	dir, err := os.MkdirTemp("", "ferry-compile-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, kernels.Headers); err != nil {
		return nil, err
	}
	arch := o.Arch
	if arch == "" {
		arch = "sm_80"
	}
	args := []string{"-x", "cuda", "--cuda-gpu-arch=" + arch, "--cuda-device-only", "-nocudainc", "-nocudalib", "-fdeclspec",
		"-Xclang", "-target-feature", "-Xclang", "+ptx80", "-O2", "-S", "-o", "-",
		"-I", dir, "-I", filepath.Dir(name), "-include", "ferry.h", "-"}
	cmd := exec.CommandContext(ctx, path, args...)
	var out, log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(source), &out, &log
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, &Error{Compiler: path, Log: log.String()}
		}
		return nil, err
	}
	return &Result{PTX: out.Bytes(), Log: log.String(), Compiler: path, Arch: arch}, nil
}
