package simt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

const stopSource = `.version 8.0
.target sm_80
.address_size 64
.file 1 "stop.cu"

.global .align 1 .b8 text[2048] = {%s};
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);

// The first thread of each warp prints.
.visible .entry tell() {
	.reg .b32 %%r<5>;
	.reg .b64 %%rd<3>;
	.reg .pred %%p;
	.local .align 8 .b8 room[8];
	mov.u32 %%r1, %%laneid;
	setp.ne.u32 %%p, %%r1, 0;
	@%%p bra done;
	mov.u64 %%rd1, text;
	cvta.global.u64 %%rd1, %%rd1;
	mov.u64 %%rd2, room;
	cvta.local.u64 %%rd2, %%rd2;
	{
	.param .b64 f;
	.param .b64 a;
	.param .b32 r;
	st.param.b64 [f], %%rd1;
	st.param.b64 [a], %%rd2;
	call (r), vprintf, (f, a);
	}
done:
	ret;
}

.func deeper() {
	call deeper;
	ret;
}

.visible .entry recursion() {
	call deeper;
	ret;
}

.visible .entry wild() {
	.reg .b64 %%rd<2>;
	.loc 1 41 3
	mov.u64 %%rd1, 64;
	.loc 1 42 9
	st.global.u32 [%%rd1], 1;
	.loc 1 43 1
	ret;
}
`

// loadStop loads a module whose kernel tell prints format.
func loadStop(t *testing.T, format string) *module {
	var numbers []string
	for _, c := range []byte(format + "\x00") {
		numbers = append(numbers, fmt.Sprint(c))
	}
	return load(t, newSpace(), "stop.ptx", fmt.Sprintf(stopSource, strings.Join(numbers, ",")))
}

// TestStopBetweenWarps checks that a launch which is stopped ends after the turn of a
// warp. The later warps of the block do not run.
func TestStopBetweenWarps(t *testing.T) {
	l := loadStop(t, "turn").launch(t, "tell", 1, 1024)
	x, err := newExecution(l)
	if err != nil {
		t.Fatal(err)
	}
	turns := 0
	l.Printf = func(s string) {
		if turns++; turns == 3 {
			x.stop.Store(true)
		}
	}
	x.work(0)
	if turns != 3 {
		t.Errorf("%d warps had a turn, want 3", turns)
	}
}

// TestStackBound checks the common limit for the call frames of all threads.
func TestStackBound(t *testing.T) {
	l := loadStop(t, "").launch(t, "recursion", 1, 1024)
	x, err := newExecution(l)
	if err != nil {
		t.Fatal(err)
	}
	if x.stack != 1<<30 {
		t.Errorf("the limit is %d bytes", x.stack)
	}
	x.stack = 1 << 20
	x.work(0)
	f, ok := x.fault.(*cu.Fault)
	if !ok || f.Result != cu.ErrorHardwareStackError || !strings.Contains(f.Why, "over 1 MiB") {
		t.Fatalf("got %v", x.fault)
	}
}

// TestPrintfFlood checks that the output of one call is limited, and that it says so.
func TestPrintfFlood(t *testing.T) {
	l := loadStop(t, "begin "+strings.Repeat("%999999d", 200)+" end").launch(t, "tell", 1, 1)
	var got string
	l.Printf = func(s string) { got += s }
	mustRun(t, l)
	if !strings.HasPrefix(got, "begin   ") || len(got) > printBytes+1<<20 || !strings.HasSuffix(got, dropped) {
		t.Errorf("%d bytes, that end with %q", len(got), got[max(0, len(got)-60):])
	}
}

func TestSourceOfFaults(t *testing.T) {
	f := mustFault(t, loadStop(t, "").launch(t, "wild", 1, 1))
	if f.Source != "stop.cu:42" || f.Result != cu.ErrorIllegalAddress {
		t.Errorf("got %v of %q, want stop.cu:42", f, f.Source)
	}
}
