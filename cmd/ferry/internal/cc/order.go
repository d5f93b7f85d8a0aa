package cc

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

// registrations are names of the function that clang writes into an object file, and that registers
// the kernels and variables.
var registrations = []string{"__cuda_module_ctor", "__hip_module_ctor"}

// relaBytes is the size of an entry of a section of type SHT_RELA in a file of 64 bits.
const relaBytes = 24

// registerFirst lets the registration of an object file run before its static constructors, as with
// nvcc: they may launch kernels. Clang puts it last into the list of functions that run before main.
// The list is zeros in the file; entries of the section .rela.init_array say which functions they are.
func registerFirst(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil // of the optimiser at link time, which is no ELF file
	}
	list, at := f.Section(".rela.init_array"), registrationIn(f)
	if list == nil || at == nil {
		return nil
	}
	if list.Size%relaBytes != 0 || list.Offset+list.Size > uint64(len(data)) {
		return fmt.Errorf("%s: the section .rela.init_array has %d bytes", path, list.Size)
	}
	table := data[list.Offset : list.Offset+list.Size]
	if !at.first(f, table) {
		return nil
	}
	return os.WriteFile(path, data, 0o644)
}

// A symbol is where a function is: its section, and its offset there.
type symbol struct {
	section elf.SectionIndex
	value   uint64
}

// registrationIn returns the registration of an object file, or nil.
func registrationIn(f *elf.File) *symbol {
	all, _ := f.Symbols() // a file without symbols has none
	for _, s := range all {
		if slices.Contains(registrations, s.Name) {
			return &symbol{s.Section, s.Value}
		}
	}
	return nil
}

// first moves the entry of the registration to the front of the relocations of the list. The places
// of the list, which the entries name, keep their order.
func (r *symbol) first(f *elf.File, table []byte) (moved bool) {
	all, _ := f.Symbols()
	for at := relaBytes; at < len(table); at += relaBytes {
		info, addend := binary.LittleEndian.Uint64(table[at+8:]), binary.LittleEndian.Uint64(table[at+16:])
		n := int(info >> 32)
		if n == 0 || n > len(all) {
			continue
		}
		s := all[n-1] // the table begins with an empty symbol, which Symbols leaves out
		if s.Section != r.section || s.Value+addend != r.value {
			continue
		}
		for ; at > 0; at -= relaBytes {
			copy(table[at+8:at+relaBytes], table[at-relaBytes+8:at])
		}
		binary.LittleEndian.PutUint64(table[8:], info)
		binary.LittleEndian.PutUint64(table[16:], addend)
		return true
	}
	return false
}
