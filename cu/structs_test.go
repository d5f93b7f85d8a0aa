package cu_test

import (
	"reflect"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// layouts has the sizes and offsets that a C compiler gives the structs in the header
// of CUDA 13.0, on amd64 and arm64.
var layouts = []struct {
	typ     reflect.Type
	size    uintptr
	offsets map[string]uintptr
}{
	{reflect.TypeFor[cu.Memcpy2D](), 128, map[string]uintptr{
		"SrcXInBytes": 0, "SrcY": 8, "SrcMemoryType": 16, "SrcHost": 24, "SrcDevice": 32, "SrcArray": 40, "SrcPitch": 48,
		"DstXInBytes": 56, "DstY": 64, "DstMemoryType": 72, "DstHost": 80, "DstDevice": 88, "DstArray": 96, "DstPitch": 104,
		"WidthInBytes": 112, "Height": 120,
	}},
	{reflect.TypeFor[cu.Memcpy3D](), 200, map[string]uintptr{
		"SrcXInBytes": 0, "SrcY": 8, "SrcZ": 16, "SrcLOD": 24, "SrcMemoryType": 32, "SrcHost": 40, "SrcDevice": 48, "SrcArray": 56,
		"SrcPitch": 72, "SrcHeight": 80,
		"DstXInBytes": 88, "DstY": 96, "DstZ": 104, "DstLOD": 112, "DstMemoryType": 120, "DstHost": 128, "DstDevice": 136, "DstArray": 144,
		"DstPitch": 160, "DstHeight": 168,
		"WidthInBytes": 176, "Height": 184, "Depth": 192,
	}},
	{reflect.TypeFor[cu.MemPoolProps](), 88, map[string]uintptr{
		"AllocType": 0, "HandleTypes": 4, "LocationType": 8, "LocationID": 12, "MaxSize": 24, "Usage": 32,
	}},
	{reflect.TypeFor[cu.MemLocation](), 8, map[string]uintptr{"Type": 0, "ID": 4}},
	{reflect.TypeFor[cu.MemAccessDesc](), 12, map[string]uintptr{"Location": 0, "Flags": 8}},
	{reflect.TypeFor[cu.MemAllocationProp](), 32, map[string]uintptr{
		"Type": 0, "RequestedHandleTypes": 4, "Location": 8, "CompressionType": 24, "GPUDirectRDMACapable": 25, "Usage": 26,
	}},
	{reflect.TypeFor[cu.IpcMemHandle](), 64, nil},
	{reflect.TypeFor[cu.IpcEventHandle](), 64, nil},
	{reflect.TypeFor[cu.MemPoolPtrExportData](), 64, nil},
	{reflect.TypeFor[cu.LaunchAttribute](), 72, map[string]uintptr{"ID": 0, "Value": 8}},
}

func TestStructLayout(t *testing.T) {
	if reflect.TypeFor[uintptr]().Size() != 8 {
		t.Skip("the layouts are for 64-bit platforms")
	}
	for _, want := range layouts {
		if got := want.typ.Size(); got != want.size {
			t.Errorf("%v has %d bytes, want %d", want.typ, got, want.size)
		}
		named := 0
		if want.typ.Kind() != reflect.Struct {
			continue
		}
		for f := range want.typ.Fields() {
			if f.Name == "_" {
				continue
			}
			named++
			if offset, ok := want.offsets[f.Name]; !ok || f.Offset != offset {
				t.Errorf("%v.%s is at %d, want %d (in the table: %t)", want.typ, f.Name, f.Offset, offset, ok)
			}
		}
		if named != len(want.offsets) {
			t.Errorf("%v has %d fields, want %d", want.typ, named, len(want.offsets))
		}
	}
}
