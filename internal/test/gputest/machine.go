package gputest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// MachineVariable is the environment variable that names the machine of [Machines] on
// which tests run, in place of the software H200.
const MachineVariable = "FERRY_TEST_MACHINE"

// Machine is an H200 that lacks something, or a machine of package profile.
type Machine struct {
	Name    string
	Driver  int                  // the CUDA version of the driver, such as 11030; 0 for that of the H200
	Off     []cu.DeviceAttribute // attributes that are 0, and not on the H200
	Shipped bool                 // the machine is the profile of this name
}

// newest has, for CUDA versions of drivers, the last device attribute that they know.
var newest = map[int]cu.DeviceAttribute{11030: 119, 11080: 124, 12020: 134, 12080: 143}

// Without unified addressing there is no managed memory, and registered memory has another
// address on the device. Without managed memory nothing has concurrent access to it.
var (
	noMapping  = []cu.DeviceAttribute{cu.DeviceAttributeCanMapHostMemory, cu.DeviceAttributeCanUseHostPointerForRegisteredMem}
	exclusive  = []cu.DeviceAttribute{cu.DeviceAttributeConcurrentManagedAccess, cu.DeviceAttributePageableMemoryAccess}
	noManaged  = append([]cu.DeviceAttribute{cu.DeviceAttributeManagedMemory}, exclusive...)
	noVirtual  = []cu.DeviceAttribute{cu.DeviceAttributeVirtualMemoryManagementSupported, cu.DeviceAttributeHandleTypePOSIXFileDescriptorSupported}
	noUnified  = slices.Concat([]cu.DeviceAttribute{cu.DeviceAttributeUnifiedAddressing, cu.DeviceAttributeCanUseHostPointerForRegisteredMem}, noManaged, noVirtual)
	noRegister = []cu.DeviceAttribute{cu.DeviceAttributeHostRegisterSupported, cu.DeviceAttributeReadOnlyHostRegisterSupported, cu.DeviceAttributeCanUseHostPointerForRegisteredMem}
	noPools    = []cu.DeviceAttribute{cu.DeviceAttributeMemoryPoolsSupported}
	noWrites   = []cu.DeviceAttribute{cu.DeviceAttributeCanUse64BitStreamMemOps, cu.DeviceAttributeCanUseStreamWaitValueNOR}
)

// Machines returns machines that each lack one capability, one that lacks all, machines with older
// drivers, and those of package profile that nobody of Ferry has seen.
func Machines() []Machine {
	all := []Machine{
		{Name: "no-mapping", Off: noMapping},
		{Name: "no-uva", Off: noUnified},
		{Name: "no-managed", Off: noManaged},
		{Name: "no-concurrent-managed", Off: exclusive},
		{Name: "no-register", Off: noRegister},
		{Name: "no-pools", Off: noPools},
		{Name: "no-stream-writes", Off: noWrites},
		{Name: "cuda-11.3", Driver: 11030},
		{Name: "cuda-11.8", Driver: 11080},
		{Name: "cuda-12.2", Driver: 12020},
		{Name: "cuda-12.8", Driver: 12080},
		{Name: "nothing", Driver: 11030, Off: slices.Concat(noMapping, noUnified, noRegister, noPools, noWrites)},
		{Name: "gb10", Shipped: true},
		{Name: "gb300", Shipped: true},
		{Name: "h200-cc", Shipped: true},
		{Name: "wsl", Shipped: true},
	}
	for i := range all {
		if all[i].Shipped {
			all[i].Off = lacking(all[i].Name)
		}
	}
	return all
}

// lacking returns the attributes that the H200 has and a machine of package profile has not.
func lacking(name string) (off []cu.DeviceAttribute) {
	h200, err := profile.Named("h200")
	p, err2 := profile.Named(name)
	if err != nil || err2 != nil {
		panic(fmt.Sprintf("BUG: %v, %v", err, err2))
	}
	for _, a := range cu.DeviceAttributes() {
		if h200.Has(a) && !p.Has(a) {
			off = append(off, a)
		}
	}
	return off
}

// Profile returns the profile of the machine.
func (m Machine) Profile(t testing.TB) *profile.Profile {
	t.Helper()
	base := "h200"
	if m.Shipped {
		base = m.Name
	}
	p, err := profile.Named(base)
	if err != nil {
		t.Fatal(err)
	}
	if m.Shipped {
		return p
	}
	q := *p
	q.Name = m.Name
	q.Attributes = maps.Clone(p.Attributes)
	if m.Driver != 0 {
		q.Driver.Value = float64(m.Driver)
	}
	for _, a := range cu.DeviceAttributes() {
		name := strings.TrimPrefix(a.String(), "CU_DEVICE_ATTRIBUTE_")
		was, known := p.Attributes[name]
		switch {
		case m.Driver != 0 && a > newest[m.Driver]:
			delete(q.Attributes, name)
		case slices.Contains(m.Off, a):
			if !known {
				t.Fatalf("the H200 has no attribute %s", name)
			}
			q.Attributes[name] = profile.Number{Source: was.Source}
		}
	}
	return &q
}

// Chosen returns the machine of MachineVariable, or false if it is not set.
func Chosen(t testing.TB) (Machine, bool) {
	t.Helper()
	name := os.Getenv(MachineVariable)
	if name == "" {
		return Machine{}, false
	}
	var names []string
	for _, m := range Machines() {
		if m.Name == name {
			return m, true
		}
		names = append(names, m.Name)
	}
	t.Fatalf("%s=%s: the machines are %s", MachineVariable, name, strings.Join(names, ", "))
	return Machine{}, false
}

// H200 returns the profile of the software H200, or of the chosen machine.
func H200(t testing.TB) *profile.Profile {
	t.Helper()
	m, _ := Chosen(t)
	p := m.Profile(t)
	p.Name = "h200" // which tests find in errors
	return p
}

// SkipIfLacking skips the test if err says that the chosen machine lacks something, and
// names it. On other machines it does nothing.
func SkipIfLacking(t testing.TB, err error) {
	t.Helper()
	if m, ok := Chosen(t); ok && m.Explains(err) {
		t.Skipf("%s: %v", m.Name, err)
	}
}

// Explains reports whether err says what the machine lacks: an attribute that is 0, or a
// call that its driver does not have.
func (m Machine) Explains(err error) bool {
	if !errors.Is(err, cu.ErrorNotSupported) {
		return false
	}
	if _, missing := errors.AsType[*cu.NotSupportedError](err); missing && m.Driver != 0 {
		return true
	}
	return slices.ContainsFunc(m.Off, func(a cu.DeviceAttribute) bool { return strings.Contains(err.Error(), a.String()) })
}

// Needs skips the test if the chosen machine lacks an attribute.
func Needs(t testing.TB, attributes ...cu.DeviceAttribute) {
	t.Helper()
	m, _ := Chosen(t)
	for _, a := range attributes {
		if slices.Contains(m.Off, a) {
			t.Skipf("%s: %v is 0", m.Name, a)
		}
	}
}

// NeedsH200 skips the test on a machine of package profile, because it needs something that only the
// H200 has.
func NeedsH200(t testing.TB, what string) {
	t.Helper()
	if m, _ := Chosen(t); m.Shipped {
		t.Skipf("%s: the test needs the H200, for %s", m.Name, what)
	}
}

// NeedsCall skips the test if the driver of the chosen machine is older than a call.
func NeedsCall(t testing.TB, call string, version int) {
	t.Helper()
	if m, _ := Chosen(t); m.Driver != 0 && m.Driver < version {
		t.Skipf("%s: the driver has no %s", m.Name, call)
	}
}
