package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/measure/runner"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// Run tests a kernel in the subtests "soft" and "cuda". The package comment says which
// devices they use.
func Run(t *testing.T, c *Case) {
	t.Helper()
	st := newState(c)
	for _, d := range devices(secureenv.Device(), os.Getenv(gputest.RequireVariable) == "1") {
		t.Run(d.subtest, func(t *testing.T) {
			g, err := ferry.Open(d.open)
			switch {
			case err != nil && d.optional:
				gputest.Skip(t, err)
			case err != nil:
				t.Fatal(err)
			}
			s := &session{state: st, g: g, reopen: d.open, guards: !g.Emulated()}
			defer s.close()
			if err := s.runAll(t.Context()); err != nil {
				t.Error(err)
				return
			}
			t.Logf("%s, seed %d, on %v", counted(len(st.launches), "launch", "launches"), c.Seed, g)
		})
	}
}

// Check tests a kernel on one GPU. The error has the same text as a failure of [Run]. After
// a fault of a kernel the GPU cannot be used any more, and Check makes no further launch.
// When ctx ends, Check waits no longer for a launch. A nil ctx never ends.
func Check(ctx context.Context, g *ferry.GPU, c *Case) error {
	if g == nil {
		return refusal.Invalid("test a kernel: no GPU given (nil)")
	}
	ctx = await.Context(ctx)
	s := &session{state: newState(c), g: g, guards: !g.Emulated()}
	defer func() {
		if ctx.Err() == nil { // otherwise a kernel may still run, and close would wait for it
			s.close()
		}
	}()
	return s.runAll(ctx)
}

// device is a device of Run.
type device struct {
	subtest, open string
	optional      bool // skip the subtest if the device cannot be opened
}

// devices returns the devices of Run. chosen is the value of FERRY_DEVICE. If a GPU is
// required, the choice of a software GPU does not leave it out.
func devices(chosen string, required bool) []device {
	soft, hardware := device{subtest: "soft", open: "soft"}, device{subtest: "cuda", open: "cuda", optional: true}
	switch {
	case chosen == "":
	case strings.HasPrefix(chosen, "cuda"):
		hardware = device{subtest: "cuda", open: chosen}
	default:
		soft.open = chosen
		if !required {
			return []device{soft}
		}
	}
	return []device{soft, hardware}
}

// state is what all devices of a case share.
type state struct {
	c        *Case
	launches []launchSpec
	invalid  error            // why the case cannot be run
	expected map[int][][]byte // without Want: the results of the first launch, by size
}

func newState(c *Case) *state {
	if c == nil {
		return &state{c: &Case{}, invalid: refusal.Invalid("no case given (nil)")}
	}
	st := &state{c: c, expected: map[int][][]byte{}}
	st.launches, st.invalid = c.launches()
	return st
}

// session is the run of a case on a device.
type session struct {
	*state
	g      *ferry.GPU
	reopen string // the name of the device, if the session owns it
	lost   bool   // the context of g is lost, because of a fault
	guards bool   // put guard bands around buffers

	builds  []build  // the module and, if there is one, Case.Other
	results [][]byte // of the last launch with the first build; nil if it failed
}

// build is a module on the device of a session.
type build struct {
	module *ferry.Module
	kernel *ferry.Kernel
}

// maxFailures is how many failed launches are described.
const maxFailures = 3

// runAll makes all launches of a case. The error describes the first that failed.
func (s *session) runAll(ctx context.Context) error {
	if s.invalid != nil {
		return fmt.Errorf("test kernel %s: %w", s.c.name(), s.invalid)
	}
	var failed []error
	for i, l := range s.launches {
		err := s.prepare()
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		if err := s.try(ctx, l); err != nil {
			failed = append(failed, s.describe(l, err))
			s.lost = isSticky(err)
		}
		if rest := len(s.launches) - i - 1; s.lost && !s.g.Emulated() && rest > 0 {
			failed = append(failed, fmt.Errorf("%s not made, because the fault ended the context", counted(rest, "launch was", "launches were")))
			break
		}
		if ctx.Err() != nil {
			break
		}
	}
	if more := len(failed) - maxFailures; more > 0 {
		failed = append(failed[:maxFailures], fmt.Errorf("and %d more of %d launches failed", more, len(s.launches)))
	}
	return errors.Join(failed...)
}

// prepare loads the module. After a fault it opens the software GPU anew.
func (s *session) prepare() error {
	if s.lost {
		if s.reopen == "" {
			return errors.New("the fault ended the context: no further launch was made")
		}
		s.close()
		g, err := ferry.Open(s.reopen)
		if err != nil {
			return err
		}
		s.g, s.lost = g, false
	}
	if s.builds != nil || s.c.Launch != nil {
		return nil
	}
	image, err := s.c.image()
	if err == nil {
		err = s.load(image)
	}
	if err == nil && s.c.Other != nil {
		err = s.load(s.c.Other)
	}
	return err
}

// load loads a build of the module.
func (s *session) load(image []byte) error {
	m, err := ferry.Load(s.g, image, nil)
	if err != nil {
		return err
	}
	s.builds = append(s.builds, build{module: m})
	name := s.c.Kernel
	if names := m.Kernels(); names != nil { // otherwise it is not PTX
		if name, err = runner.FindKernel(names, name); err != nil {
			return fmt.Errorf("kernel %q is not in the module, %w", s.c.Kernel, err)
		}
	}
	s.builds[len(s.builds)-1].kernel, err = m.Kernel(name)
	return err
}

// kernel returns the kernel for a launch. It is nil if Case.Launch launches.
func (s *session) kernel(l launchSpec) *ferry.Kernel {
	switch {
	case s.builds == nil:
		return nil
	case l.other:
		return s.builds[1].kernel
	}
	return s.builds[0].kernel
}

// close closes the modules and, if the session owns it, the GPU. Their errors are those of
// launches, which were reported.
func (s *session) close() {
	for _, b := range s.builds {
		_ = b.module.Close()
	}
	s.builds = nil
	if s.reopen != "" && s.g != nil {
		_ = s.g.Close()
		s.g = nil
	}
}
