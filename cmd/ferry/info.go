package main

import (
	"context"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/info"
)

// deviceHelp explains the names of devices. Every page of help ends with it.
const deviceHelp = `devices:
  (none)      that of FERRY_DEVICE, else an NVIDIA GPU, else the software GPU
  cuda        the first NVIDIA GPU; cuda:1 is the second
  soft        the software GPU, which runs anywhere and predicts an H200
  soft:NAME   the software GPU as another machine: FILE.json, or one of h200,
              h100-pcie, a100, rtx-4090, gh200, orin, jetson-tx2, fermi-c2050,
              tesla-c1060
`

var infoCommand = command{
	name:    "info",
	summary: "show what a device is and can do",
	usage:   "info [--kernel FILE.ptx] [--device D] [--json]",
	run:     showInfo,
	help: `Shows a device: driver, memory, copy engines, what host memory it can use, the
priorities of its streams, its link to the host and its peers.

With --kernel it shows the kernels of a file instead: parameters, registers,
memory, the suggested block size and the occupancy. On the software GPU some of
these are estimates, which are marked.

flags:
  --kernel FILE.ptx  a module for the device
  --json             one JSON document, schema ferry.info/1, or ferry.kernel/1
                     with --kernel
  --device D         which device

` + deviceHelp,
}

func showInfo(_ context.Context, s *session) error {
	f := newFlags("info")
	device, asJSON := deviceFlag(f), jsonFlag(f)
	kernel := f.String("kernel", "", "")
	words, err := parse(f, s.args)
	if err != nil {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	g, err := s.open(*device)
	if err != nil {
		return err
	}
	report, err := describe(g, *kernel)
	if err != nil {
		return firstError(err, g.Close())
	}
	text := []byte(report.Text())
	if *asJSON {
		if text, err = report.JSON(); err != nil {
			return err
		}
	}
	return firstError(s.write(text), g.Close())
}

// report is what the command prints.
type report interface {
	Text() string
	JSON() ([]byte, error)
}

// describe describes a device or, if path is not empty, the kernels of a file on it.
func describe(g *ferry.GPU, path string) (report, error) {
	if path != "" {
		return info.AboutKernels(g, path)
	}
	return info.About(g)
}
