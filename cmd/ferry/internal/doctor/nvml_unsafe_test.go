package doctor

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"testing"
	"unsafe"
)

// fakeNVML stands for libnvidia-ml. It answers with its fields.
type fakeNVML struct {
	code    map[string]int32    // results of functions; 0 is success
	numbers map[string][]uint32 // results behind pointers, each of 32 bits
	sizes   map[string][]uint64 // results in one array of 64 bits
	missing string              // a function that it does not have
	running []Process
	replays []uint32 // answers, one after the other
	calls   []string
}

const fakeHandle = 0x1234567890

// at returns an argument as a pointer.
func at(arg uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&arg)) }

// cString reads a C string.
func cString(arg uintptr) (text string) {
	for i := 0; *(*byte)(unsafe.Add(at(arg), i)) != 0; i++ {
		text += string(*(*byte)(unsafe.Add(at(arg), i)))
	}
	return text
}

func put(arg uintptr, n int, text string) {
	copy(unsafe.Slice((*byte)(at(arg)), n), text+"\x00")
}

func (n *fakeNVML) call(name string, args ...uintptr) (uintptr, error) {
	n.calls = append(n.calls, name)
	if name == n.missing {
		return 0, errors.New("no such function")
	}
	if code := n.code[name]; code != 0 {
		return uintptr(code) | 0xffff<<32, nil // the upper half is not part of the result
	}
	switch name {
	case "nvmlInit_v2":
		return 0, nil
	case "nvmlSystemGetDriverVersion":
		put(args[0], int(args[1]), driverRelease)
		return 0, nil
	case "nvmlDeviceGetHandleByPciBusId_v2":
		if cString(args[0]) != h200Address {
			return 6, nil
		}
		*(*uint64)(at(args[1])) = fakeHandle
		return 0, nil
	}
	if name == "nvmlSystemGetConfComputeState" {
		if n.numbers == nil {
			return 3, nil
		}
		copy(unsafe.Slice((*uint32)(at(args[0])), 3), []uint32{2, 1, 0})
		return 0, nil
	}
	if args[0] != fakeHandle {
		return 2, nil
	}
	return n.about(name, args[1:]), nil
}

// about answers a question about the GPU.
func (n *fakeNVML) about(name string, args []uintptr) uintptr {
	switch name {
	case "nvmlDeviceGetName":
		put(args[0], int(args[1]), "NVIDIA H200")
	case "nvmlDeviceGetPcieReplayCounter":
		*(*uint32)(at(args[0])) = n.replays[0]
		n.replays = n.replays[min(1, len(n.replays)-1):]
	case "nvmlDeviceGetUtilizationRates":
		copy(unsafe.Slice((*uint32)(at(args[0])), 2), []uint32{42, 7})
	case "nvmlDeviceGetTotalEccErrors":
		*(*uint64)(at(args[2])) = uint64(100*args[0] + 10*args[1] + 1)
	case "nvmlDeviceGetComputeRunningProcesses_v3":
		return n.processes(args)
	default:
		if sizes := n.sizes[name]; sizes != nil {
			copy(unsafe.Slice((*uint64)(at(args[0])), 3), sizes)
			return 0
		}
		if len(n.numbers[name]) != len(args) {
			return 3 // not supported
		}
		for i, v := range n.numbers[name] {
			*(*uint32)(at(args[i])) = v
		}
	}
	return 0
}

// processes fills an array of nvmlProcessInfo_t, or says how much room it needs.
func (n *fakeNVML) processes(args []uintptr) uintptr {
	count := (*uint32)(at(args[0]))
	room := *count
	*count = uint32(len(n.running))
	if int(room) < len(n.running) {
		return nvmlInsufficientSize
	}
	array := unsafe.Slice((*byte)(at(args[1])), room*processBytes)
	for i, p := range n.running {
		binary.LittleEndian.PutUint32(array[i*processBytes:], uint32(p.ID))
		binary.LittleEndian.PutUint64(array[i*processBytes+processMemory:], p.Memory)
	}
	return 0
}

func newFake() *fakeNVML {
	return &fakeNVML{
		code: map[string]int32{},
		numbers: map[string][]uint32{
			"nvmlDeviceGetCurrPcieLinkGeneration": {4}, "nvmlDeviceGetMaxPcieLinkGeneration": {5}, "nvmlDeviceGetGpuMaxPcieLinkGeneration": {6},
			"nvmlDeviceGetCurrPcieLinkWidth": {8}, "nvmlDeviceGetMaxPcieLinkWidth": {16}, "nvmlDeviceGetPersistenceMode": {1},
			"nvmlDeviceGetMigMode": {1, 0}, "nvmlDeviceGetEccMode": {1, 0}, "nvmlDeviceGetRemappedRows": {9, 8, 1, 0},
		},
		sizes:   map[string][]uint64{"nvmlDeviceGetBAR1MemoryInfo": {256 << 30, 1, 2}, "nvmlDeviceGetMemoryInfo": {140 << 30, 3, 4}},
		replays: []uint32{5, 7},
		running: []Process{{100, 1 << 30}, {200, ^uint64(0)}},
	}
}

// TestNVML demands that each answer of NVML gets to its field.
func TestNVML(t *testing.T) {
	n := newFake()
	m, err := startNVML(n.call)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := m.Driver(); v != driverRelease || err != nil {
		t.Errorf("driver %q, error %v", v, err)
	}
	got, err := m.Facts(h200Address)
	if err != nil {
		t.Fatal(err)
	}
	want := &Facts{
		Name: "NVIDIA H200", Generation: pointer(4), MaxGeneration: pointer(5), GPUGeneration: pointer(6), Width: pointer(8), MaxWidth: pointer(16),
		Replays: pointer(5), Replaying: true, BAR1: pointer(uint64(256 << 30)), Memory: pointer(uint64(140 << 30)), Busy: pointer(42),
		Persistence: pointer(true), ECC: pointer(true), CorrectedErrors: pointer(uint64(1)), LostErrors: pointer(uint64(101)),
		EverLost: pointer(uint64(111)), RemapPending: pointer(true), RemapFailed: pointer(false), MIG: pointer(true), Confidential: pointer(true),
		Processes: []Process{{100, 1 << 30}, {200, 0}}, ProcessesKnown: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if n.calls[0] != "nvmlInit_v2" {
		t.Errorf("calls %v", n.calls)
	}
}

// TestNVMLRefuses demands that what NVML refuses or does not have is nil, and nothing else.
func TestNVMLRefuses(t *testing.T) {
	n := newFake()
	n.numbers, n.sizes = nil, nil
	n.missing = "nvmlDeviceGetComputeRunningProcesses_v3"
	for _, name := range []string{"nvmlDeviceGetName", "nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTotalEccErrors"} {
		n.code[name] = 3
	}
	got, err := (&nvml{n.call}).Facts(h200Address)
	if err != nil || !reflect.DeepEqual(got, &Facts{}) {
		t.Errorf("got %+v, error %v", got, err)
	}
	if _, err := (&nvml{n.call}).Facts("0000:ff:00.0"); err == nil {
		t.Error("NVML knows a GPU that is not there")
	}
	for code, want := range map[int32]error{nvmlVersionMismatch: ErrMismatch, nvmlLost: ErrLost} {
		n.code["nvmlInit_v2"] = code
		if _, err := startNVML(n.call); !errors.Is(err, want) {
			t.Errorf("result %d is %v, want %v", code, err, want)
		}
	}
}

// TestManyProcesses demands all processes when there are more than the first array holds.
func TestManyProcesses(t *testing.T) {
	n := newFake()
	n.running = nil
	for i := range 100 {
		n.running = append(n.running, Process{i + 1, uint64(i)})
	}
	got, known := (&gpuQuery{&nvml{n.call}, fakeHandle}).processes()
	if !known || !slices.Equal(got, n.running) {
		t.Errorf("known %t, got %v", known, got)
	}
	n.running = make([]Process, maxProcesses+1)
	if got, known := (&gpuQuery{&nvml{n.call}, fakeHandle}).processes(); known || got != nil {
		t.Errorf("too many processes: known %t, %d", known, len(got))
	}
}
