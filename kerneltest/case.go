package kerneltest

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/measure/runner"
)

// Case is a kernel with its arguments and its reference. Kernel, Args, and one of PTX,
// File and Launch must be given. A case is not changed by its use, so that parallel tests
// can share it.
type Case struct {
	// PTX is the module: PTX text or, on hardware only, another image that
	// [ferry.Load] takes.
	PTX []byte
	// File is the path of the module, instead of PTX. It makes the command that
	// reproduces a failure complete.
	File string
	// Kernel is the name of the kernel in the source, without template arguments, or in
	// the module if several kernels have that name.
	Kernel string
	// Other is another build of the module, such as by another compiler. Each launch is
	// made with it too, and its results must have the same bits.
	Other []byte
	// Launch makes the launch itself, instead of PTX or File. It serves typed launches.
	Launch func(l *Launch) error

	// Args are the arguments. The package comment has their syntax.
	Args []string
	// Sizes are the values of N. The default is [DefaultSizes] if N occurs in Args.
	// Otherwise there is one run, with the length of the longest buffer as N.
	Sizes []int
	// Blocks are the numbers of threads in a block. The grid has one thread for each
	// of N elements, at least. The default is 256.
	Blocks []int
	// Configs returns the configurations for a size, instead of Blocks.
	Configs func(n int) []ferry.LaunchConfig
	// Seed chooses the random numbers.
	Seed uint64

	// Want writes the expected results into the out and inout buffers of a, which it gets
	// by [Slice]. They are copies, and have the data from before the launch. Without
	// Want, the results of the first configuration, on the first device, are expected
	// of all others.
	Want func(a *Args)
	// Tolerance is how much a result may differ. The zero value demands equal numbers.
	Tolerance Tolerance
}

// DefaultSizes are the default of [Case.Sizes]: sizes around those of warps and blocks.
func DefaultSizes() []int { return []int{1, 31, 32, 33, 255, 256, 257, 1000, 4099} }

// launchSpec is one launch of a case: its size and configuration.
type launchSpec struct {
	n      int
	config ferry.LaunchConfig
	other  bool // with Case.Other
}

// check refuses a case that is not complete.
func (c *Case) check() error {
	modules := 0
	for _, given := range []bool{c.PTX != nil, c.File != "", c.Launch != nil} {
		if given {
			modules++
		}
	}
	switch {
	case modules != 1:
		return errors.New("a case needs one of PTX, File and Launch")
	case c.Other != nil && c.Launch != nil:
		return errors.New("a case has Other or Launch, not both")
	case c.Kernel == "" && c.Launch == nil:
		return errors.New("a case needs the name of a kernel")
	case c.Blocks != nil && c.Configs != nil:
		return errors.New("a case has Blocks or Configs, not both")
	case c.Tolerance.Abs < 0 || c.Tolerance.Abs != c.Tolerance.Abs:
		return fmt.Errorf("the absolute tolerance %v is not a positive number", c.Tolerance.Abs)
	}
	return nil
}

// image returns the module's image. It is nil if Launch is given.
func (c *Case) image() ([]byte, error) {
	if c.File == "" {
		return c.PTX, nil
	}
	return inputfile.Read(c.File, inputfile.Image)
}

// name returns the name for messages.
func (c *Case) name() string {
	if c.Kernel == "" {
		return "kernel"
	}
	return c.Kernel
}

// launches returns the launches of the case.
func (c *Case) launches() ([]launchSpec, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	sizes, err := c.sizes()
	if err != nil {
		return nil, err
	}
	var all []launchSpec
	for _, n := range sizes {
		configs := c.configs(n)
		if len(configs) == 0 {
			return nil, fmt.Errorf("the case has no configuration for N=%d", n)
		}
		for _, config := range configs {
			all = append(all, launchSpec{n: n, config: config})
			if c.Other != nil {
				all = append(all, launchSpec{n: n, config: config, other: true})
			}
		}
	}
	return all, nil
}

// configs returns the configurations for a size.
func (c *Case) configs(n int) []ferry.LaunchConfig {
	if c.Configs != nil {
		return c.Configs(n)
	}
	blocks := c.Blocks
	if blocks == nil {
		blocks = []int{256}
	}
	var all []ferry.LaunchConfig
	for _, block := range blocks {
		all = append(all, ferry.Cover(n, block))
	}
	return all
}

// sizes returns the values of N.
func (c *Case) sizes() ([]int, error) {
	if c.Sizes != nil {
		return c.Sizes, nil
	}
	for _, text := range c.Args {
		if _, found := runner.Expand(text, 1); found {
			return DefaultSizes(), nil
		}
	}
	args, err := c.parse(0)
	if err != nil {
		return nil, err
	}
	n := 1
	for i := range args {
		bytes, err := args[i].Size()
		if err != nil {
			return nil, err
		}
		if args[i].Direction != runner.Scalar {
			n = max(n, bytes/args[i].Type.Size())
		}
	}
	return []int{n}, nil
}

// parse parses the arguments for a size.
func (c *Case) parse(n int) ([]runner.Arg, error) {
	args := make([]runner.Arg, len(c.Args))
	for i, text := range c.Args {
		text, _ = runner.Expand(text, n)
		var err error
		if args[i], err = runner.ParseArg(text); err != nil {
			return nil, err
		}
	}
	return args, nil
}
