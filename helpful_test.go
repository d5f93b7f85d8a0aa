package ferry_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// TestHelpfulErrors: errors that a new user meets say what to change, and nothing twice.
func TestHelpfulErrors(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	m, _ := load(t, g, "increment")
	long, short := must(ferry.Alloc[[3]float64](g, 100))(t), must(ferry.Alloc[[3]float64](g, 50))(t)
	own := must(ferry.Load(g, []byte(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n) { ret; }\n"), nil))(t)
	k := must(own.Kernel("k"))(t)
	for _, c := range []struct {
		err  error
		is   error
		want string
	}{
		{last(ferry.Alloc[byte](g, 1<<40)), cu.ErrorOutOfMemory, "allocate 1.0 TiB of device memory on soft:h200: CUDA_ERROR_OUT_OF_MEMORY: device 0 has"},
		{last(m.Kernel("vectoradd")), cu.ErrorNotFound, `find kernel "vectoradd": did you mean "vector_add"? there are: `},
		{last(ferry.Global[byte](m, "x")), cu.ErrorNotFound, `find variable "x": there are no variables (CUDA_ERROR_NOT_FOUND)`},
		{s.Launch(k, ferry.Grid(1, 1), long, 5), cu.ErrorInvalidValue, "got int, 8 bytes, want uint32: pass uint32(x), or int32(x) for a signed parameter"},
		{ferry.Copy(s, long, short), cu.ErrorInvalidValue, "the destination, device buffer 1 (100 [3]float64, 2.3 KiB) on soft:h200, has 100 elements, and the source, device buffer 2 (50 [3]float64, 1.2 KiB) on soft:h200, has 50"},
		{ferry.Fill(s, long, [3]float64{1.5, 2, 3}), cu.ErrorInvalidValue, "the value [1.5 2 3], 24 bytes (0x"},
	} {
		if c.err == nil {
			t.Errorf("no error, want %q", c.want)
			continue
		}
		wantError(t, c.err, c.is, c.want)
		for _, tried := range []string{"find kernel", "allocate "} {
			if n := strings.Count(c.err.Error(), tried); n > 1 {
				t.Errorf("%v: says %d times what was tried", c.err, n)
			}
		}
	}
	closeAll(t, long, short, own, m, s)
}

// TestBadVariableFirst: without a GPU, a bad variable of the software GPU is said before what was
// tried to find hardware.
func TestBadVariableFirst(t *testing.T) {
	t.Setenv(ferry.DeviceVariable, "")
	for _, variable := range []string{softgpu.ScheduleVariable, softgpu.LimitVariable} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "sofa")
			g, err := ferry.Open("")
			if err == nil {
				closeAll(t, g)
				t.Skip("there is a GPU")
			}
			if first, _, _ := strings.Cut(err.Error(), "\n"); !strings.Contains(first, variable) || !strings.Contains(first, "sofa") {
				t.Errorf("the first line is %q, want %s in it", first, variable)
			}
		})
	}
}

// TestVariableRefused: a variable or an option that is wrong is an invalid value, and the error
// says which.
func TestVariableRefused(t *testing.T) {
	open := func() error { return last(ferry.Open("soft:h200")) }
	for _, variable := range []string{softgpu.ScheduleVariable, softgpu.LimitVariable, softgpu.CheckVariable, fault.Variable, ferry.DeviceVariable} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "sofa")
			name := "soft:h200"
			if variable == ferry.DeviceVariable {
				name = ""
			}
			wantError(t, last(ferry.Open(name)), cu.ErrorInvalidValue, "sofa", variable)
		})
	}
	t.Run(trace.Variable, func(t *testing.T) {
		t.Setenv(trace.Variable, "/no/such/directory/recording")
		wantError(t, open(), os.ErrNotExist, trace.Variable+"=/no/such/directory/recording")
	})
	t.Setenv(softgpu.ScheduleVariable, "random:-1")
	wantError(t, open(), cu.ErrorInvalidValue, "the seed is not a number")
	t.Setenv(softgpu.ScheduleVariable, "")
	for part, o := range map[string]softgpu.Options{"17 devices": {Devices: 17}, "-1 devices": {Devices: -1}, "schedule 77": {Schedule: 77}, "limit is -1ns": {KernelLimit: -1},
		`check "sofa"`: {Check: "sofa"}} {
		wantError(t, last(softgpu.Open(o)), cu.ErrorInvalidValue, part)
	}
	wantError(t, last(softgpu.ParseSchedule("sofa")), cu.ErrorInvalidValue, "sofa")
	wantError(t, last(softgpu.ParseCheck("sofa")), cu.ErrorInvalidValue, "sofa")
	wantError(t, last(fault.Parse("sofa")), cu.ErrorInvalidValue, "sofa")
}
