package softgpu

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
)

// figure matches a number of a profile.
var figure = regexp.MustCompile(`"value": ([-0-9.e+]+)`)

// TestAnyNumber changes each number of the H200's profile to the ends of what a profile may
// have, and to absurd values. Loading refuses it, or a short program ends, and its clock
// rises. It tries each value at a sample of the numbers.
func TestAnyNumber(t *testing.T) {
	sample.SkipRace(t)
	b, err := os.ReadFile("../profile/h200.json")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	type change struct {
		at    []int // of the number in the text
		value string
	}
	var changes []change
	for _, at := range figure.FindAllStringSubmatchIndex(text, -1) {
		before := text[:at[0]]
		if strings.Contains(before, "\n \"tuning\": {") && !strings.Contains(before, "\n \"host\": {") { // of Ferry, not of the device
			continue
		}
		for _, value := range []string{"0", "1e-300", "1e-9", "-1", "1", "1e6", "1e12", "9007199254740992"} {
			changes = append(changes, change{at, value})
		}
	}
	refused, ran := 0, 0
	for _, c := range sample.OfEach(t, changes, func(c change) string { return c.value }, 8) {
		p, err := profile.Parse([]byte(text[:c.at[2]] + c.value + text[c.at[3]:]))
		if err != nil {
			refused++
			continue
		}
		ran++
		line := strings.Count(text[:c.at[0]], "\n") + 1
		if err := shortProgram(t, p); err != nil {
			t.Errorf("line %d with %s: %v", line, c.value, err)
		}
	}
	t.Logf("%d values refused, %d ran", refused, ran)
	if refused == 0 || ran == 0 {
		t.Error("the test changes nothing")
	}
}

// shortProgram copies, launches and waits on a device with a profile. An error of the driver
// is fine, because the device may have no memory.
func shortProgram(t *testing.T, p *profile.Profile) error {
	d, err := Open(Options{Profile: p, Schedule: Eager})
	if err != nil || d.Init(0) != nil {
		return nil
	}
	ctx, err := d.DevicePrimaryCtxRetain(0)
	if err != nil {
		return nil
	}
	defer d.DevicePrimaryCtxReset(0)
	r := &rig{d, t, ctx}
	before := d.Now()
	host := make([]byte, 1<<16)
	dev, err := d.MemAlloc(ctx, uintptr(len(host)))
	if err != nil {
		return nil
	}
	_ = d.MemcpyHtoD(ctx, dev, cu.HostPtr(&host[0]), uintptr(len(host)))
	_ = d.MemsetD8(ctx, dev, 1, uintptr(len(host)))
	if m, err := d.ModuleLoadData(ctx, []byte(testPTX)); err == nil {
		if f, err := d.ModuleGetFunction(ctx, m, "store"); err == nil {
			_ = r.run(f, 1, 1, 0, dev, uint32(7))
		}
	}
	_ = d.MemcpyDtoH(ctx, cu.HostPtr(&host[0]), dev, uintptr(len(host)))
	if managed, err := d.MemAllocManaged(ctx, 1<<16, cu.MemAttachGlobal); err == nil {
		_ = d.MemsetD8(ctx, managed, 1, 1<<16)
	}
	_ = d.CtxSynchronize(ctx)
	if after := d.Now(); after < before {
		t.Errorf("the clock went from %v to %v", before, after)
	}
	return nil
}
