//go:build !linux

package forked

import "os"

// Started does nothing here.
func Started() {}

// Child is false here.
func Child() bool { return false }

// MayBeChild is false here.
func MayBeChild() bool { return false }

// New returns the error of a call in a child.
func New(what string) error { return &Error{What: what, Parent: os.Getpid(), Child: os.Getpid()} }
