package bench

import (
	"errors"
	"slices"
)

// closers are functions that close objects.
type closers []func() error

// add adds a function that closes the object just created, unless err is set. It returns
// err.
func (c *closers) add(err error, f func() error) error {
	if err == nil {
		*c = append(*c, f)
	}
	return err
}

// close closes the objects in reverse order.
func (c closers) close() (err error) {
	for _, f := range slices.Backward(c) {
		err = errors.Join(err, f())
	}
	return err
}
