package softgpu

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

const mappedPTX = `.version 7.0
.target sm_75
.address_size 64

// The first word of p becomes larger by 1, n times for each thread. The second word of p says
// that the kernel runs.
.visible .entry hammer(.param .u64 p, .param .u32 n) {
	.reg .u64 %a;
	.reg .u32 %x, %n;
	.reg .pred %p;
	ld.param.u64 %a, [p];
	ld.param.u32 %n, [n];
	mov.u32 %x, 1;
	st.volatile.global.u32 [%a+64], %x;
again:
	atom.global.sys.add.u32 %x, [%a], 1;
	sub.u32 %n, %n, 1;
	setp.ne.u32 %p, %n, 0;
	@%p bra again;
	ret;
}

// The first word of p becomes 0 if it is 1, n times.
.visible .entry swap(.param .u64 p, .param .u32 n) {
	.reg .u64 %a;
	.reg .u32 %x, %n;
	.reg .pred %p;
	ld.param.u64 %a, [p];
	ld.param.u32 %n, [n];
again:
	atom.global.sys.cas.b32 %x, [%a], 1, 0;
	sub.u32 %n, %n, 1;
	setp.ne.u32 %p, %n, 0;
	@%p bra again;
	ret;
}

POLLS

STORES
`

var pollForms = []string{"ld.global.u32", "ld.global.ca.u32", "ld.global.cg.u32", "ld.global.cv.u32", "ld.global.nc.u32",
	"ld.volatile.global.u32", "ld.relaxed.sys.global.u32", "ld.acquire.sys.global.u32"}

// The kernels of mappedPTX in their forms. Kernel poll reads a word until it is not 0. Kernel
// data writes 16 lines and then a flag, and waits for an answer.
func mappedSource() string {
	var polls, stores strings.Builder
	for i, form := range pollForms {
		fmt.Fprintf(&polls, `.visible .entry poll%d(.param .u64 p) {
	.reg .u64 %%a;
	.reg .u32 %%x, %%y;
	.reg .pred %%p;
	ld.param.u64 %%a, [p];
	%s %%x, [%%a];
	mov.u32 %%y, 1;
	st.volatile.global.u32 [%%a+64], %%y;
	bra test;
again:
	%s %%x, [%%a];
test:
	setp.eq.u32 %%p, %%x, 0;
	@%%p bra again;
	ret;
}
`, i, form, form)
	}
	for i, how := range storeForms {
		fmt.Fprintf(&stores, `.visible .entry data%d(.param .u64 p) {
	.reg .u64 %%a, %%b, %%o;
	.reg .u32 %%x, %%t;
	.reg .pred %%p;
	ld.param.u64 %%a, [p];
	mov.u32 %%t, %%tid.x;
	mul.wide.u32 %%o, %%t, 128;
	add.u64 %%b, %%a, %%o;
	mov.u32 %%x, 7;
	st.global.u32 [%%b+1024], %%x;
	%s
	setp.ne.u32 %%p, %%t, 0;
	@%%p bra done;
	%s
wait:
	ld.volatile.global.u32 %%x, [%%a+64];
	setp.eq.u32 %%p, %%x, 0;
	@%%p bra wait;
done:
	ret;
}
`, i, how.before, how.flag)
	}
	return strings.NewReplacer("POLLS", polls.String(), "STORES", stores.String()).Replace(mappedPTX)
}

var storeForms = []struct {
	before, flag string
	ordered      bool
}{
	{"", "st.volatile.global.u32 [%a], %x;", false},
	{"bar.sync 0;", "st.relaxed.sys.global.u32 [%a], %x;", false},
	{"", "atom.global.sys.exch.b32 %x, [%a], %x;", false},
	{"membar.sys;", "bar.sync 0; st.volatile.global.u32 [%a], %x;", true},
	{"bar.sync 0;", "membar.sys; st.volatile.global.u32 [%a], %x;", true},
	{"bar.sync 0;", "st.release.sys.global.u32 [%a], %x;", true},
	{"fence.acq_rel.gpu; bar.sync 0;", "st.relaxed.sys.global.u32 [%a], %x;", true},
}

// mappedRig has mapped words and the kernels above.
type mappedRig struct {
	*rig
	mod   cu.Module
	words []uint32
	dev   cu.DevicePtr
}

func newMappedRig(t *testing.T, o Options) *mappedRig {
	if raceBuild {
		t.Skip("the race detector reports these programs")
	}
	t.Setenv(ScheduleVariable, "")
	return mappedRigOf(t, o)
}

func mappedRigOf(t *testing.T, o Options) *mappedRig {
	r := newRig(t, o)
	mod, err := r.ModuleLoadData(r.ctx, []byte(mappedSource()))
	r.ok(err)
	p, b := r.pinned(1 << 14)
	return &mappedRig{r, mod, unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(b)/4), cu.DevicePtr(uintptr(p))}
}

func (r *mappedRig) kernel(name string) cu.Function {
	f, err := r.ModuleGetFunction(r.ctx, r.mod, name)
	r.ok(err)
	return f
}

// beside runs a kernel. host is called while it runs, after it has set a word. The result is
// the error of the wait.
func (r *mappedRig) beside(kernel string, threads uint32, set int, host func(), words ...any) error {
	r.t.Helper()
	for i := range r.words {
		atomic.StoreUint32(&r.words[i], 0)
	}
	r.ok(r.run(r.kernel(kernel), 1, threads, 0, append([]any{r.dev}, words...)...))
	done := make(chan error)
	go func() { done <- r.StreamSynchronize(r.ctx, 0) }() // lets it start under lazy
	for atomic.LoadUint32(&r.words[set]) == 0 {
		select {
		case err := <-done:
			if atomic.LoadUint32(&r.words[set]) == 0 {
				r.t.Fatalf("kernel %s has not set word %d: %v", kernel, set, err)
			}
			host()
			return err
		default:
			runtime.Gosched()
		}
	}
	host()
	return <-done
}

// lost returns how many updates are missing when kernel and host both update a word.
func (r *mappedRig) lost(host int) int {
	const threads, n = 64, 2000
	r.ok(r.beside("hammer", threads, 16, func() {
		for range host {
			atomic.AddUint32(&r.words[0], 1)
		}
	}, uint32(n)))
	return threads*n + host - int(r.words[0])
}

// TestHostAtomics: updates of the host are lost beside those of a kernel, unless the device
// has native host atomics. Those of kernels are never lost, and eager loses none.
func TestHostAtomics(t *testing.T) {
	for _, c := range []struct {
		schedule Schedule
		native   float64
		loses    bool
	}{{Eager, 0, false}, {Lazy, 0, true}, {Lazy, 1, false}} {
		t.Run(fmt.Sprintf("%v/native=%v", c.schedule, c.native), func(t *testing.T) {
			if c.loses {
				needsThreads(t)
			}
			r := newMappedRig(t, Options{Schedule: c.schedule, Profile: with(named(t, "h200"), "HOST_NATIVE_ATOMIC_SUPPORTED", c.native)})
			if n := r.lost(0); n != 0 {
				t.Errorf("%d updates of kernels were lost", n)
			}
			lost := 0
			for i := 0; i < 20 && lost == 0; i++ {
				lost = r.lost(20_000)
			}
			if (lost > 0) != c.loses || lost < 0 {
				t.Errorf("%d updates were lost", lost)
			}
		})
	}
}

// polls runs a kernel that polls a word which the host sets while it runs, most often after
// the kernel has read it. It returns the error of the wait.
func (r *mappedRig) polls(i int) error {
	return r.beside(fmt.Sprintf("poll%d", i), 32, 16, func() {
		time.Sleep(5 * time.Millisecond)
		atomic.StoreUint32(&r.words[0], 1)
	})
}

// TestWeakPolling: under lazy a kernel that polls by weak loads does not end, and the error of
// the limit says so. By strong loads it ends, and under eager always.
func TestWeakPolling(t *testing.T) {
	for i, form := range pollForms {
		weak := i < 5
		for _, s := range []Schedule{Eager, Lazy} {
			t.Run(fmt.Sprintf("%s/%v", form, s), func(t *testing.T) {
				limit, ends := 20*time.Second, !weak || s == Eager
				if !ends {
					limit = time.Second
				}
				r := newMappedRig(t, Options{Schedule: s, KernelLimit: limit})
				err := r.polls(i)
				for n := 0; n < 20 && !ends && err == nil; n++ {
					err = r.polls(i)
				}
				if ends {
					r.ok(err)
					return
				}
				if !errors.Is(err, cu.ErrorLaunchTimeout) || !strings.Contains(err.Error(), form) || !strings.Contains(err.Error(), "ld.volatile") {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestWeakPollingRandom: under random some seeds show it.
func TestWeakPollingRandom(t *testing.T) {
	ended := map[bool]int{}
	for seed := range uint64(8) {
		r := newMappedRig(t, Options{Schedule: Random, Seed: seed, KernelLimit: time.Second})
		ended[r.polls(0) == nil]++
	}
	if ended[true] == 0 || ended[false] == 0 {
		t.Errorf("with %d seeds the kernel ends, with %d it does not", ended[true], ended[false])
	}
}

// TestWeakStores: under lazy the host sees a flag before the data that weak stores have
// written, unless a fence or a release orders them. When the kernel has ended, all is there.
func TestWeakStores(t *testing.T) {
	const threads = 16
	for i, form := range storeForms {
		for _, s := range []Schedule{Eager, Lazy} {
			t.Run(fmt.Sprintf("%s %s/%v", form.before, form.flag, s), func(t *testing.T) {
				r := newMappedRig(t, Options{Schedule: s})
				stale := 0
				for n := 0; n < 20 || n < 200 && !form.ordered && s == Lazy && stale == 0; n++ {
					r.ok(r.beside(fmt.Sprintf("data%d", i), threads, 0, func() {
						for j := range threads {
							if atomic.LoadUint32(&r.words[256+32*j]) != 7 {
								stale++
							}
						}
						atomic.StoreUint32(&r.words[16], 1)
					}))
					for j := range threads {
						if r.words[256+32*j] != 7 {
							t.Fatalf("word %d is %d after the kernel", j, r.words[256+32*j])
						}
					}
				}
				if (stale > 0) != (s == Lazy && !form.ordered) {
					t.Errorf("%d words were old", stale)
				}
			})
		}
	}
}

// TestMappedFindings: the check reports both kinds of conflict with the host.
func TestMappedFindings(t *testing.T) {
	for what, c := range map[string]struct {
		schedule Schedule
		run      func(r *mappedRig)
		kind     string
	}{
		"weak poll":    {Eager, func(r *mappedRig) { r.ok(r.polls(0)) }, "stale read of mapped memory"},
		"strong poll":  {Eager, func(r *mappedRig) { r.ok(r.polls(5)) }, ""},
		"lost updates": {Lazy, func(r *mappedRig) { r.lost(20_000) }, "lost update of the host"},
		"no update":    {Lazy, func(r *mappedRig) { r.lost(0) }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			if what == "lost updates" {
				needsThreads(t)
			}
			r := newMappedRig(t, Options{Schedule: c.schedule, Check: "races"})
			for i := 0; i < 20 && (i == 0 || c.kind != "" && len(r.Findings()) == 0); i++ {
				c.run(r)
			}
			kinds := map[string]bool{}
			for _, f := range r.Findings() {
				if f.Kind != "race" { // the threads of poll write one word
					kinds[f.Kind] = true
				}
			}
			if len(kinds) > 1 || c.kind != "" && !kinds[c.kind] || c.kind == "" && len(kinds) > 0 {
				t.Errorf("found %v, want %q", r.Findings(), c.kind)
			}
		})
	}
}
