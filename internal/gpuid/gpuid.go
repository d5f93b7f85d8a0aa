// Package gpuid finds the NVIDIA GPU that a UUID, the beginning of one, or a PCI address
// names. It knows no driver: callers say which GPUs there are.
package gpuid

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// GPU is a GPU that can be named. Its place in a list is its ordinal.
type GPU struct {
	Name       string // product name
	UUID       string // "GPU-" and 36 characters; "" if it is not known
	PCIAddress string // "0000:1b:00.0"
}

// ID names a GPU by its UUID or its PCI address. The zero value names none.
type ID struct {
	text string
	uuid string // its beginning with "gpu-", in lower case; "" for a PCI address
	pci  pciAddress
}

// pciAddress is domain, bus, device and function.
type pciAddress [4]uint64

// prefix is what UUIDs of GPUs begin with, in lower case.
const prefix = "gpu-"

// Parse reads "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6" or a beginning of it, or a PCI
// address as nvidia-smi, lspci or CUDA print it: "0000:1b:00.0", "00000000:1B:00.0",
// "1b:00.0". ok is false for all other texts.
func Parse(text string) (id ID, ok bool) {
	lower := strings.ToLower(text)
	if digits, found := strings.CutPrefix(lower, prefix); found {
		return ID{text: text, uuid: lower}, digits != "" && strings.Trim(digits, "0123456789abcdef-") == ""
	}
	id = ID{text: text}
	id.pci, ok = parsePCI(lower)
	return id, ok
}

// parsePCI reads a PCI address. Without a domain it is domain 0, without a function
// function 0.
func parsePCI(text string) (address pciAddress, ok bool) {
	place, function, hasFunction := strings.Cut(text, ".")
	fields := strings.Split(place, ":")
	if len(fields) == 2 {
		fields = append([]string{"0"}, fields...)
	}
	if len(fields) != 3 {
		return address, false
	}
	if !hasFunction {
		function = "0"
	}
	for i, bits := range [...]int{32, 8, 5, 3} {
		n, err := strconv.ParseUint(append(fields, function)[i], 16, bits)
		if err != nil {
			return address, false
		}
		address[i] = n
	}
	return address, true
}

// Named reports whether the ID names a GPU.
func (id ID) Named() bool { return id.text != "" }

// Whole reports whether no two GPUs can have the ID: it is a PCI address or a whole UUID.
func (id ID) Whole() bool { return id.uuid == "" || len(id.uuid) == len("gpu-")+36 }

// String returns the text that Parse has read.
func (id ID) String() string { return id.text }

// matches reports whether the ID can be that of a GPU.
func (id ID) matches(g GPU) bool {
	if id.uuid != "" {
		return strings.HasPrefix(strings.ToLower(g.UUID), id.uuid)
	}
	address, ok := parsePCI(strings.ToLower(g.PCIAddress))
	return ok && address == id.pci
}

// Find returns the ordinal of the only GPU that the ID names. The error for none or several
// lists what there is, and wraps cu.ErrorInvalidDevice.
func (id ID) Find(all []GPU) (ordinal int, err error) {
	var found []int
	for i, g := range all {
		if id.matches(g) {
			found = append(found, i)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return 0, refusal.New(cu.ErrorInvalidDevice, "%d GPUs have %s: add characters until one is left of %s", len(found), id.what(), list(all, found))
	}
	return 0, refusal.New(cu.ErrorInvalidDevice, "no GPU has %s: the driver shows %s", id.what(), list(all, nil))
}

// what says what the ID is.
func (id ID) what() string {
	if id.uuid != "" {
		return "a UUID that begins with " + printable.Value(id.text)
	}
	return "the PCI address " + printable.Value(id.text)
}

// list describes the GPUs with these ordinals, or all of them.
func list(all []GPU, ordinals []int) string {
	var texts []string
	for i, g := range all {
		if ordinals == nil {
			texts = append(texts, g.describe(i))
		}
	}
	for _, i := range ordinals {
		texts = append(texts, all[i].describe(i))
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, "; ")
}

// describe says how a GPU can be named.
func (g GPU) describe(ordinal int) string {
	uuid := g.UUID
	if uuid == "" {
		uuid = "its UUID is not known"
	}
	return fmt.Sprintf("cuda:%d (%s, %s, %s)", ordinal, g.Name, uuid, g.PCIAddress)
}
