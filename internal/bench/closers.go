package bench

import "errors"

// closers undo what was made, the last first.
type closers []func() error

// later notes how to undo what has just been made and may have failed.
func (c *closers) later(err error, f func() error) error {
	if err == nil {
		*c = append(*c, f)
	}
	return err
}

func (c closers) close() (err error) {
	for i := range c {
		err = errors.Join(err, c[len(c)-1-i]())
	}
	return err
}
