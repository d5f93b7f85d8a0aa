package doctor

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/internal/dl"
)

// The results of NVML that matter here.
const (
	nvmlInsufficientSize = 7
	nvmlLost             = 15
	nvmlVersionMismatch  = 18
)

// nvmlError is a result of NVML that is not success.
type nvmlError struct {
	function string
	code     int32
}

func (e *nvmlError) Error() string { return fmt.Sprintf("%s: NVML error %d", e.function, e.code) }

// Is makes the results that a check looks for [ErrMismatch] and [ErrLost].
func (e *nvmlError) Is(other error) bool {
	return other == ErrMismatch && e.code == nvmlVersionMismatch || other == ErrLost && e.code == nvmlLost
}

// library calls a function of a C library by its name. Memory that arguments point to
// comes from a [dl.Frame].
type library func(name string, args ...uintptr) (uintptr, error)

// nvml is NVIDIA's library of the management of GPUs.
type nvml struct{ lib library }

// OpenNVML opens the first NVML that starts, in the places where drivers install it. It
// stays open.
func OpenNVML() (m Manager, err error) {
	s := dl.DriverLibrary("libnvidia-ml.so.1")
	s.Accept = func(l *dl.Library) (err error) {
		m, err = startNVML(func(name string, args ...uintptr) (uintptr, error) {
			fn, err := l.Symbol(name)
			if err != nil {
				return 0, err
			}
			return dl.Call(fn, args...), nil
		})
		return err
	}
	if _, err := s.Find(); err != nil {
		return nil, err
	}
	return m, nil
}

func startNVML(lib library) (Manager, error) {
	n := &nvml{lib}
	if err := n.call("nvmlInit_v2"); err != nil {
		return nil, err
	}
	return n, nil
}

// call calls a function that returns an nvmlReturn_t.
func (n *nvml) call(function string, args ...uintptr) error {
	r, err := n.lib(function, args...)
	if err != nil {
		return err
	}
	if code := int32(r); code != 0 {
		return &nvmlError{function, code}
	}
	return nil
}

// Driver calls nvmlSystemGetDriverVersion.
func (n *nvml) Driver() (string, error) {
	var f dl.Frame
	defer f.Release()
	text := make([]byte, 80)
	err := n.call("nvmlSystemGetDriverVersion", f.Bytes(text), uintptr(len(text)))
	return cText(text), err
}

// cText returns the text before the first zero byte.
func cText(b []byte) string {
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}

// replayWait is the time between two looks at the counter of replays.
const replayWait = 100 * time.Millisecond

// Facts asks for everything about a GPU. What NVML refuses stays nil.
func (n *nvml) Facts(address string) (*Facts, error) {
	var f dl.Frame
	defer f.Release()
	handle := []uint64{0}
	if err := n.call("nvmlDeviceGetHandleByPciBusId_v2", f.Text(address), dl.Array(&f, handle)); err != nil {
		return nil, err
	}
	g := &gpuQuery{n, uintptr(handle[0])}
	facts := &Facts{
		Name:          g.name(),
		Generation:    g.number("nvmlDeviceGetCurrPcieLinkGeneration"),
		MaxGeneration: g.number("nvmlDeviceGetMaxPcieLinkGeneration"),
		GPUGeneration: g.number("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
		Width:         g.number("nvmlDeviceGetCurrPcieLinkWidth"),
		MaxWidth:      g.number("nvmlDeviceGetMaxPcieLinkWidth"),
		Replays:       g.number("nvmlDeviceGetPcieReplayCounter"),
		BAR1:          g.size("nvmlDeviceGetBAR1MemoryInfo"),
		Memory:        g.size("nvmlDeviceGetMemoryInfo"),
		Busy:          g.busy(),
		Persistence:   g.yes("nvmlDeviceGetPersistenceMode"),
	}
	g.health(facts)
	facts.Processes, facts.ProcessesKnown = g.processes()
	if facts.Replays != nil && *facts.Replays > 0 {
		time.Sleep(replayWait)
		again := g.number("nvmlDeviceGetPcieReplayCounter")
		facts.Replaying = again != nil && *again > *facts.Replays
	}
	return facts, nil
}

// gpuQuery asks NVML about one GPU.
type gpuQuery struct {
	*nvml
	handle uintptr
}

// integers calls a function with pointers to n results of 32 bits. It returns nil if
// NVML refuses.
func (g *gpuQuery) integers(function string, n int) []uint32 {
	var f dl.Frame
	defer f.Release()
	results := make([]uint32, n)
	args := []uintptr{g.handle}
	for i := range results {
		args = append(args, dl.Array(&f, results[i:i+1]))
	}
	if g.call(function, args...) != nil {
		return nil
	}
	return results
}

func (g *gpuQuery) number(function string) *int {
	r := g.integers(function, 1)
	if r == nil {
		return nil
	}
	n := int(r[0])
	return &n
}

func (g *gpuQuery) yes(function string) *bool {
	r := g.integers(function, 1)
	if r == nil {
		return nil
	}
	return truth(r[0])
}

func truth(word uint32) *bool {
	yes := word != 0
	return &yes
}

// size calls a function that fills a struct of three sizes in bytes, the whole first.
func (g *gpuQuery) size(function string) *uint64 {
	var f dl.Frame
	defer f.Release()
	sizes := make([]uint64, 3)
	if g.call(function, g.handle, dl.Array(&f, sizes)) != nil {
		return nil
	}
	return &sizes[0]
}

func (g *gpuQuery) name() string {
	var f dl.Frame
	defer f.Release()
	text := make([]byte, 96)
	if g.call("nvmlDeviceGetName", g.handle, f.Bytes(text), uintptr(len(text))) != nil {
		return ""
	}
	return cText(text)
}

// busy returns the per cent of time with a kernel: the first field of nvmlUtilization_t.
func (g *gpuQuery) busy() *int {
	var f dl.Frame
	defer f.Release()
	rates := make([]uint32, 2)
	if g.call("nvmlDeviceGetUtilizationRates", g.handle, dl.Array(&f, rates)) != nil {
		return nil
	}
	n := int(rates[0])
	return &n
}

// The arguments of nvmlDeviceGetTotalEccErrors.
const (
	eccCorrected, eccLost     = 0, 1
	eccSinceLoad, eccLifetime = 0, 1
)

// health asks for errors of the GPU's memory.
func (g *gpuQuery) health(facts *Facts) {
	if r := g.integers("nvmlDeviceGetEccMode", 2); r != nil { // now, and after a restart
		facts.ECC = truth(r[0])
	}
	facts.CorrectedErrors = g.errors(eccCorrected, eccSinceLoad)
	facts.LostErrors = g.errors(eccLost, eccSinceLoad)
	facts.EverLost = g.errors(eccLost, eccLifetime)
	if r := g.integers("nvmlDeviceGetRemappedRows", 4); r != nil { // corrected, lost, pending, failed
		facts.RemapPending, facts.RemapFailed = truth(r[2]), truth(r[3])
	}
}

func (g *gpuQuery) errors(kind, since uintptr) *uint64 {
	var f dl.Frame
	defer f.Release()
	count := make([]uint64, 1)
	if g.call("nvmlDeviceGetTotalEccErrors", g.handle, kind, since, dl.Array(&f, count)) != nil {
		return nil
	}
	return &count[0]
}

// The layout of nvmlProcessInfo_t: pid of 32 bits, padding, memory of 64, two numbers of
// 32 bits of MIG.
const (
	processBytes  = 24
	processMemory = 8
	maxProcesses  = 1 << 12
)

// processes returns the processes that compute on the GPU. known is false if NVML refuses.
func (g *gpuQuery) processes() (all []Process, known bool) {
	var f dl.Frame
	defer f.Release()
	// The count is the room of the array, and then the number of processes. A process may
	// begin between two calls.
	for room := uint32(32); room <= maxProcesses; room *= 2 {
		count, array := []uint32{room}, make([]byte, room*processBytes)
		err := g.call("nvmlDeviceGetComputeRunningProcesses_v3", g.handle, dl.Array(&f, count), f.Bytes(array))
		if e, refused := err.(*nvmlError); refused && e.code == nvmlInsufficientSize {
			continue
		}
		if err != nil || count[0] > room {
			return nil, false
		}
		for at := range int(count[0]) {
			entry := array[at*processBytes:]
			p := Process{ID: int(binary.LittleEndian.Uint32(entry)), Memory: binary.LittleEndian.Uint64(entry[processMemory:])}
			if p.Memory == ^uint64(0) { // NVML_VALUE_NOT_AVAILABLE
				p.Memory = 0
			}
			all = append(all, p)
		}
		return all, true
	}
	return nil, false
}
