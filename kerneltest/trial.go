package kerneltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/measure/runner"
)

// Launch is what [Case.Launch] gets. It launches the kernel on Stream, with Config and
// with the buffers that [Device] returns. It may load a module on GPU, and close it.
type Launch struct {
	*Args
	GPU    *ferry.GPU
	Stream *ferry.Stream
	Config ferry.LaunchConfig
}

// trial is one launch.
type trial struct {
	*session
	launchSpec
	stream  *ferry.Stream
	args    []runner.Arg
	before  [][]byte // the bytes of each argument before the launch
	buffers []*buffer
}

// try makes one launch and compares its results.
func (s *session) try(ctx context.Context, l launchSpec) (err error) {
	if l.other && s.results == nil {
		return errors.New("not compared with Case.Other, because the launch with the module failed")
	}
	t := &trial{session: s, launchSpec: l}
	if t.args, err = s.c.parse(l.n); err != nil {
		return err
	}
	t.buffers = make([]*buffer, len(t.args))
	if params := s.kernel(l).Params(); params != nil {
		if err := runner.Match(s.c.Kernel, params, t.args); err != nil {
			return err
		}
	}
	if err := t.generate(); err != nil {
		return err
	}
	want, err := t.want()
	if err != nil {
		return err
	}
	if t.stream, err = ferry.NewStream(s.g, nil); err != nil {
		return err
	}
	defer t.close(ctx)
	if err := t.launch(ctx); err != nil {
		return t.explain(err)
	}
	return t.compare(want)
}

// generate makes the data of all arguments.
func (t *trial) generate() error {
	t.before = make([][]byte, len(t.args))
	for i := range t.args {
		a := &t.args[i]
		data, err := a.Generate(t.c.Seed, i)
		if err != nil {
			return err
		}
		if a.Direction == runner.Out {
			for k := range len(data) / a.Type.Size() {
				runner.PutElement(data, a.Type, k, fillPattern(a.Type))
			}
		}
		t.before[i] = data
	}
	return nil
}

// want returns the expected results: those of the reference or, for Case.Other, those of
// the module. It returns nil if there is no reference and no launch was made.
func (t *trial) want() (want [][]byte, err error) {
	if t.other {
		return t.results, nil
	}
	t.results = nil
	if t.c.Want == nil {
		return t.expected[t.n], nil
	}
	for _, data := range t.before {
		want = append(want, bytes.Clone(data))
	}
	defer catch(&err)
	t.c.Want(&Args{n: t.n, args: t.args, data: want})
	return want, nil
}

// launch launches the kernel and waits for it.
func (t *trial) launch(ctx context.Context) error {
	if err := t.queue(); err != nil {
		return err
	}
	if err := t.stream.Wait(ctx); err != nil {
		return err
	}
	for i := range t.args {
		if t.args[i].Direction != runner.Scalar && t.buffers[i] == nil {
			return fmt.Errorf("argument %d, %s: Launch did not use it: it must call Device", i, t.args[i].Text)
		}
	}
	return nil
}

func (t *trial) queue() (err error) {
	args := &Args{n: t.n, args: t.args, data: t.before, run: t}
	if t.c.Launch != nil {
		defer catch(&err)
		return t.c.Launch(&Launch{Args: args, GPU: t.g, Stream: t.stream, Config: t.config})
	}
	values := make([]any, len(t.args))
	for i := range t.args {
		if t.args[i].Direction == runner.Scalar {
			values[i] = t.args[i].Value()
		} else if values[i], err = memoryOf[byte](t, i); err != nil {
			return fmt.Errorf("argument %d, %s: %w", i, t.args[i].Text, err)
		}
	}
	return t.stream.Launch(t.kernel(t.launchSpec), t.config, values...)
}

// close closes the buffers and the stream. When ctx has ended, the kernel may still run:
// waiting for it could take for ever, so all is left to the end of the process.
func (t *trial) close(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	for _, b := range t.buffers {
		if b != nil {
			_ = b.close() // fails only after a launch that failed, which was reported
		}
	}
	_ = t.stream.Close()
}

// isSticky reports whether an error means that the context is lost.
func isSticky(err error) bool {
	r, ok := errors.AsType[cu.Result](err)
	if fault, is := errors.AsType[*cu.Fault](err); is {
		r, ok = fault.Result, true
	}
	return ok && r.Sticky()
}
