package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// files is the tree that is examined: sys, proc, dev and usr of a machine. Names have no
// slash at the beginning.
type files struct{ fs.FS }

// maxFile is how much of a file is read at most. Files of sysfs and procfs are small.
const maxFile = 1 << 20

// text returns a file without the space around it, or "" if it cannot be read.
func (f files) text(name string) string {
	b, err := f.bytes(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// bytes returns the first maxFile bytes of a file.
func (f files) bytes(name string) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []byte
	for buffer := make([]byte, 4096); len(all) < maxFile; {
		n, err := file.Read(buffer)
		all = append(all, buffer[:n]...)
		if err != nil || n == 0 {
			break
		}
	}
	return all, nil
}

// exists reports whether there is a file or directory of a name.
func (f files) exists(name string) bool {
	_, err := fs.Stat(f.FS, name)
	return err == nil
}

// link returns the target of a symbolic link, or "".
func (f files) link(name string) string {
	target, err := fs.ReadLink(f.FS, name)
	if err != nil {
		return ""
	}
	return target
}

// names returns the names in a directory, sorted.
func (f files) names(dir string) (all []string) {
	entries, _ := fs.ReadDir(f.FS, dir)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	slices.Sort(all)
	return all
}

// field returns the rest of the first line of a file that begins with key.
func (f files) field(name, key string) string {
	for line := range strings.Lines(f.text(name)) {
		if rest, found := strings.CutPrefix(line, key); found {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// kib returns a field of a number of KiB, such as those of /proc/meminfo, in bytes.
func (f files) kib(name, key string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(f.field(name, key), " kB"), 10, 54)
	return n << 10, err == nil
}

// maxListed bounds the numbers of a list.
const maxListed = 1 << 16

// numbers reads a list such as "0-3,8". It returns nil for other text.
func numbers(list string) (all []int) {
	if list == "" {
		return nil
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || first < 0 || last >= maxListed {
			return nil
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	}
	return all
}

// share reports whether two lists have a number in common.
func share(a, b []int) bool {
	return slices.ContainsFunc(a, func(n int) bool { return slices.Contains(b, n) })
}

// pciDevices has a symbolic link for each PCI device, to its place below its bridges.
const pciDevices = "sys/bus/pci/devices"

// inDevice returns the name of a file of a PCI device.
func (f files) inDevice(address, name string) string {
	dir := path.Join(pciDevices, address)
	if target := f.link(dir); target != "" {
		dir = path.Join(pciDevices, target)
	}
	return path.Join(dir, name)
}

// sizeText returns a number of bytes in the largest unit that gives at least 1.
func sizeText(bytes uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	size, i := float64(bytes), 0
	for ; size >= 1024 && i < len(units)-1; i++ {
		size /= 1024
	}
	return strconv.FormatFloat(size, 'f', decimals(size), 64) + " " + units[i]
}

// decimals returns 1 for small numbers that are not whole, else 0.
func decimals(size float64) int {
	if size < 10 && size != float64(int(size)) {
		return 1
	}
	return 0
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
