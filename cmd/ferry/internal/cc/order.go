package cc

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
)

// registrations are names of the function that clang writes into an object file, and that registers
// the kernels and variables.
var registrations = []string{"__cuda_module_ctor", "__hip_module_ctor"}

// Sizes in a file of 64 bits.
const (
	relaBytes   = 24 // an entry of a section of type SHT_RELA
	headerBytes = 64 // the header of a section
	slotBytes   = 8  // a function in a list of those that run before main
)

// registerFirst lets the registration of an object file run before all static constructors of the
// program: they may launch kernels. Clang puts it into the list .init_array, where it comes after the
// constructors of the file's inline variables, and of files that the linker has before. It gets a list
// of its own, .init_array.100: linkers put lists with numbers first. 101 is the first that programs use.
func registerFirst(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil // of the optimiser at link time, which is no ELF file
	}
	o := &object{f, data}
	list, n := o.registration()
	if list == 0 {
		return nil
	}
	if err := o.check(list); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	o.extend(o.remove(list, n))
	return os.WriteFile(path, o.data, 0o644)
}

// An object is an object file with its text. Each list of functions is zeros in the file; entries of
// another section, of type SHT_RELA, say which functions they are.
type object struct {
	*elf.File
	data []byte
}

// registration returns where the registration is: the index of the section with the entries of its
// list, or 0, and the number of its entry there.
func (o *object) registration() (list, n int) {
	all, _ := o.Symbols() // a file without symbols has none
	at := slices.IndexFunc(all, func(s elf.Symbol) bool { return slices.Contains(registrations, s.Name) })
	if at < 0 {
		return 0, 0
	}
	is := func(e entry) bool {
		x := int(e.Info>>32) - 1 // Symbols leaves out the first, which is empty
		return x >= 0 && x < len(all) && all[x].Section == all[at].Section && all[x].Value+e.Addend == all[at].Value
	}
	for i, s := range o.Sections {
		if s.Type == elf.SHT_RELA && s.Name == ".rela.init_array" {
			if n := slices.IndexFunc(o.entries(s), is); n >= 0 {
				return i, n
			}
		}
	}
	return 0, 0
}

// An entry says what stands at an offset in a list of functions.
type entry struct{ Offset, Info, Addend uint64 }

func (o *object) entries(s *elf.Section) []entry {
	all := make([]entry, s.Size/relaBytes)
	_ = binary.Read(s.Open(), binary.LittleEndian, all) // what is missing stays zero
	return all
}

// check returns an error if a list is not as clang writes it.
func (o *object) check(list int) error {
	s := o.Sections[list]
	of := int(s.Info)
	if s.Size%relaBytes != 0 || s.Offset+s.Size > uint64(len(o.data)) || of >= len(o.Sections) || o.Sections[of].Size/slotBytes != s.Size/relaBytes {
		return fmt.Errorf("the section %s has %d bytes", s.Name, s.Size)
	}
	for n, e := range o.entries(s) {
		if e.Offset != uint64(n)*slotBytes {
			return fmt.Errorf("the section %s is not in order", s.Name)
		}
	}
	return nil
}

// header returns the header of a section.
func (o *object) header(i int) []byte {
	return o.data[binary.LittleEndian.Uint64(o.data[0x28:])+uint64(i)*headerBytes:][:headerBytes]
}

// resize sets the size of a section.
func (o *object) resize(i int, bytes uint64) {
	binary.LittleEndian.PutUint64(o.header(i)[0x20:], bytes)
}

// remove takes an entry out of a list, whose other functions keep their order, and returns it.
func (o *object) remove(list, n int) entry {
	s := o.Sections[list]
	all := o.entries(s)
	removed := all[n]
	for i, e := range slices.Delete(all, n, n+1) {
		at := o.data[s.Offset+uint64(i)*relaBytes:]
		binary.LittleEndian.PutUint64(at[8:], e.Info)
		binary.LittleEndian.PutUint64(at[16:], e.Addend)
	}
	o.resize(list, s.Size-relaBytes)
	o.resize(int(s.Info), o.Sections[s.Info].Size-slotBytes)
	return entry{Info: removed.Info, Addend: removed.Addend}
}

// Names of the new list, and of the section with its entry.
const (
	listName  = ".init_array.100"
	entryName = ".rela.init_array.100"
)

// extend adds a list of one function. What is new stands at the end of the file: the names of sections,
// the list, its entry, and the headers of all sections.
func (o *object) extend(e entry) {
	le := binary.LittleEndian
	count, names := len(o.Sections), int(le.Uint16(o.data[0x3e:]))
	headers := bytes.Clone(o.data[le.Uint64(o.data[0x28:]):][:count*headerBytes])
	n := o.Sections[names]
	text := string(o.data[n.Offset:n.Offset+n.Size]) + listName + "\x00" + entryName + "\x00"
	le.PutUint64(headers[names*headerBytes+0x18:], o.append([]byte(text)))
	le.PutUint64(headers[names*headerBytes+0x20:], uint64(len(text)))
	symbols := slices.IndexFunc(o.Sections, func(s *elf.Section) bool { return s.Type == elf.SHT_SYMTAB })
	added := []elf.Section64{{
		Name: uint32(strings.LastIndex(text, "\x00"+listName) + 1), Type: uint32(elf.SHT_INIT_ARRAY), Flags: uint64(elf.SHF_WRITE | elf.SHF_ALLOC),
		Off: o.append(make([]byte, slotBytes)), Size: slotBytes, Addralign: slotBytes,
	}, {
		Name: uint32(strings.LastIndex(text, entryName)), Type: uint32(elf.SHT_RELA), Flags: uint64(elf.SHF_INFO_LINK),
		Off: o.append(encoded(e)), Size: relaBytes, Link: uint32(symbols), Info: uint32(count), Addralign: 8, Entsize: relaBytes,
	}}
	at := o.append(append(headers, encoded(added)...))
	le.PutUint64(o.data[0x28:], at)
	le.PutUint16(o.data[0x3c:], uint16(count+len(added)))
}

// append adds a part to the end of the file, and returns where it begins.
func (o *object) append(part []byte) uint64 {
	o.data = append(o.data, make([]byte, -len(o.data)&7)...)
	o.data = append(o.data, part...)
	return uint64(len(o.data) - len(part))
}

func encoded(x any) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, x) // whose fields have fixed sizes
	return b
}
