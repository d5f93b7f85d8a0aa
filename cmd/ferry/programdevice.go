package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/softlib"
	"github.com/ferrygpu/ferry/internal/devices"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// programDeviceFlag adds the --device flag of a command that runs a program.
func programDeviceFlag(c *cobra.Command, device *string) {
	deviceFlag(c, device)
	c.Flags().Lookup("device").Usage = "the device `D` of the program (FERRY_DEVICE); soft is also for programs that are not in Go: see ferry help lib"
}

// deviceEnvironment returns the variables with which a program gets a device; none for "". A
// program in another language than Go gets the library that is the software GPU. If that cannot be
// built, a program that is not linked with the driver runs without it, and a line says so.
func (s *session) deviceEnvironment(ctx context.Context, device, program string) ([]string, error) {
	if device == "" {
		return nil, nil
	}
	if err := checkProfile(device); err != nil {
		return nil, err
	}
	n, err := devices.Parse(device)
	if err != nil {
		return nil, badUsage("--device %s: %v", device, err)
	}
	env := []string{secureenv.DeviceVariable + "=" + device}
	need := softlib.NeedOf(program)
	if !n.Soft || need == softlib.Never {
		return env, nil
	}
	l, err := s.softLibrary(ctx, softlib.HasDetector(program))
	switch {
	case err == nil:
		env = append(env, l.Environment())
	case need == softlib.Always || ctx.Err() != nil:
		return nil, err
	default:
		s.say("ferry: %s runs without the driver library of the software GPU, which it may need: %v\n", program, err)
	}
	return env, nil
}
