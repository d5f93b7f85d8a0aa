package gputest

import (
	"errors"
	"time"
)

// Context is a context that a program wrote: it ends when Ended is closed. Its Done calls Ask
// first, and its Err calls AtEnd when it has ended.
type Context struct {
	Ended      chan struct{}
	Ask, AtEnd func()
}

// ErrEnded is the error of a Context that has ended.
var ErrEnded = errors.New("the program's context has ended")

func (c *Context) Done() <-chan struct{} {
	c.Ask()
	return c.Ended
}

func (c *Context) Err() error {
	select {
	case <-c.Ended:
		c.AtEnd()
		return ErrEnded
	default:
		return nil
	}
}

func (c *Context) Deadline() (time.Time, bool) { panic("Deadline is called") }
func (c *Context) Value(any) any               { panic("Value is called") }
