//go:build !unix

package main

// returnWriteErrors does nothing: a write that fails returns an error here.
func returnWriteErrors() {}
