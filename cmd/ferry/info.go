package main

import (
	"context"

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
	usage:   "info [--device D] [--json]",
	run:     showInfo,
	help: `Shows a device: driver, memory, copy engines, what host memory it can use, the
priorities of its streams, its link to the host and its peers.

flags:
  --json      one JSON document, schema ferry.info/1
  --device D  which device

` + deviceHelp,
}

func showInfo(_ context.Context, s *session) error {
	f := newFlags("info")
	device, asJSON := deviceFlag(f), jsonFlag(f)
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
	report, err := info.About(g)
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
