package main

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/ferrygpu/ferry/internal/doctor"
)

var doctorCommand = command{
	name:    "doctor",
	summary: "find what makes copies slow or page-locking fail here",
	usage:   "doctor [--device D] [--json]",
	run:     examine,
	help: `Examines the machine: the GPU's link now and at most, BAR, NUMA node, IOMMU,
ACS, errors, other processes, and limits of memory, huge pages, kernel and
driver. Each check is ok, WARN, FAIL or - (skipped). What is not ok has its
cost, where the figure comes from, and how to mend it. Nothing is changed, and
nothing runs on the GPU. Without a GPU only the system is examined, and that is
no fault.

flags:
  --json      one JSON document, schema ferry.doctor/1
  --device D  which GPU: cuda:N; soft examines the system only

The exit status is 0 if the machine is healthy, 3 if a check fails or warns of
something that slows copies. Warnings without such a cost do not count.

` + deviceHelp,
}

// errDegraded ends a command whose result is written and says that something is wrong.
var errDegraded = errors.New("degraded")

func examine(ctx context.Context, s *session) error {
	f := newFlags("doctor")
	device, asJSON := deviceFlag(f), jsonFlag(f)
	words, err := parse(f, s.args)
	if err != nil {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	r, err := doctor.Here(ctx, *device, version())
	if wrong, isDevice := errors.AsType[*doctor.DeviceError](err); isDevice {
		return badUsage("%v", wrong)
	} else if err != nil {
		return err
	}
	text := []byte(r.Text(columns()))
	if *asJSON {
		if text, err = r.JSON(); err != nil {
			return err
		}
	}
	if err := s.write(text); err != nil || !r.Degraded {
		return err
	}
	return errDegraded
}

// columns returns the width of the terminal as the shell says it, or 80.
func columns() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 80
}
