package devices

import (
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/gpuid"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/profile"
)

// Name is a parsed name of a device. The comment of ferry.Open lists the names.
type Name struct {
	Auto    bool     // a GPU if there is one, otherwise the software GPU
	Soft    bool     // the software GPU, not CUDA
	Profile string   // of the software GPU: a name, or a file that ends in .json; "" is the default
	Count   int      // number of devices of the software GPU
	Ordinal int      // of the CUDA device; -1 if the name has none
	ID      gpuid.ID // of the CUDA device; names none if the name has none
}

// Parse parses a name of a device. It reads no file and no variable: "" gives Auto. The error
// wraps cu.ErrorInvalidValue, and says which names there are.
func Parse(name string) (Name, error) {
	kind, rest, more := strings.Cut(name, ":")
	switch {
	case name == "":
		return Name{Auto: true, Ordinal: -1}, nil
	case name == "cuda":
		return Name{Ordinal: -1}, nil
	case kind == "cuda":
		return parseCUDA(rest)
	}
	if kind, _, _ = strings.Cut(kind, "*"); kind != "soft" {
		return Name{}, refusal.Invalid("no such device: use cuda, cuda:1, soft, soft:%s, soft:FILE.json or soft:h200*2", strings.Join(profile.Names(), ", soft:"))
	}
	return parseSoft(name, more)
}

// parseCUDA parses what follows "cuda:".
func parseCUDA(rest string) (Name, error) {
	if id, ok := gpuid.Parse(rest); ok {
		return Name{Ordinal: -1, ID: id}, nil
	}
	n, err := strconv.ParseUint(rest, 10, 16)
	if err != nil {
		return Name{}, refusal.Invalid("%s is not a device number, a UUID or a PCI address: use cuda:0, cuda:1, cuda:GPU-8932f937 or cuda:0000:1b:00.0", printable.Value(rest))
	}
	return Name{Ordinal: int(n)}, nil
}

// parseSoft parses a name of the software GPU. colon says that it has one.
func parseSoft(name string, colon bool) (Name, error) {
	n := Name{Soft: true, Count: 1}
	base, times, many := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, "soft"), ":"), "*")
	if many {
		count, err := strconv.ParseUint(times, 10, 16)
		if err != nil || count == 0 {
			return Name{}, refusal.Invalid("%s is not a number of devices: use soft:h200*2", printable.Value(times))
		}
		n.Count = int(count)
	}
	if n.Profile = base; base == "" && colon {
		return Name{}, refusal.Invalid("no profile after \"soft:\": use one of %s, or the path of a .json file", strings.Join(profile.Names(), ", "))
	}
	return n, nil
}
