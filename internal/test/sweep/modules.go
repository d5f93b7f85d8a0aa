package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/ferrybind"
	"github.com/ferrygpu/ferry/kernels"
)

const header = ".version 6.3\n.target sm_52\n.address_size 64\n"

// advancePTX has a kernel that adds a variable of another module to the first element.
const advancePTX = header + `
.extern .global .f32 step;
.visible .entry advance(.param .u64 p)
{
	.reg .b64 %rd<2>; .reg .f32 %f<3>;
	ld.param.u64 %rd0, [p];
	cvta.to.global.u64 %rd1, %rd0;
	ld.global.f32 %f0, [step];
	ld.global.f32 %f1, [%rd1];
	add.f32 %f2, %f0, %f1;
	st.global.f32 [%rd1], %f2;
	ret;
}
`

const stepPTX = header + ".visible .global .align 4 .f32 step = 0f3F800000;\n"

const managedPTX = header + ".visible .global .attribute(.managed) .align 4 .f32 step = 0f3F800000;\n"

// first returns an error if the first element of the page-locked memory is another one.
func first(b *base, want float32) error {
	if got := b.host.Slice()[0]; got != want {
		return fmt.Errorf("wrong data: the first element is %v, want %v", got, want)
	}
	return nil
}

func linked(ctx context.Context, g *ferry.GPU, b *base) error {
	m, err := ferry.Link(g, []ferry.LinkInput{{Name: "advance", Image: []byte(advancePTX)}, {Name: "step", Image: []byte(stepPTX)}}, nil)
	m, ok := take(&b.user, m, err)
	if !ok {
		return nil
	}
	k, err := m.Kernel("advance")
	if err != nil {
		return err
	}
	step, err := ferry.Global[float32](m, "step")
	if err != nil {
		return err
	}
	return steps(
		func() error { return ferry.Fill(b.s, step, 5) },
		func() error { return ferry.Copy(b.s, b.on, b.host) },
		func() error { return ferrybind.Launch(k, b.s, ferry.Cover(1, 1), b.on) },
		func() error { return ferry.Copy(b.s, b.host, b.on) },
		func() error { return b.s.Wait(ctx) },
		func() error { return first(b, 5) })
}

func managedGlobal(ctx context.Context, g *ferry.GPU, b *base) error {
	m, err := ferry.Load(g, []byte(managedPTX), nil)
	m, ok := take(&b.user, m, err)
	if !ok {
		return nil
	}
	step, err := ferry.ManagedGlobal[float32](m, "step")
	if err != nil {
		return err
	}
	return steps(
		func() error { return ferry.Fill(b.s, step, 5) },
		func() error { return ferry.Copy(b.s, b.host.Range(0, 1), step) },
		func() error { return b.s.Wait(ctx) },
		func() error { return first(b, 5) })
}

// bound binds a kernel of a module in a file, and launches it on a stream and in a batch.
func bound(ctx context.Context, g *ferry.GPU, b *base) (err error) {
	f, err := os.CreateTemp("", "sweep-*.ptx")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if _, err := f.WriteString(kernels.PTX); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	m, err := ferry.LoadFile(g, f.Name(), nil)
	m, ok := take(&b.user, m, err)
	if !ok {
		return nil
	}
	k, err := ferrybind.Kernel(m, "increment", ferrybind.Param{Name: "x", Type: "float *", Size: 8}, ferrybind.Param{Name: "n", Type: "unsigned long", Size: 8})
	if err != nil {
		return err
	}
	var list ferry.Batch
	return steps(
		func() error { return ferry.Copy(b.s, b.on, b.host) },
		func() error { return ferrybind.Launch(k, b.s, g.GridStride(n), b.on, uint64(n)) },
		func() error { return ferrybind.Launch(k, &list, g.GridStride(n), b.on, uint64(n)) },
		func() error { return b.s.Submit(&list) },
		func() error { return ferry.Copy(b.s, b.host, b.on) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(b.host.Slice(), 2) })
}
