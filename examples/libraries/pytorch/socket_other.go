//go:build !linux

package main

import (
	"errors"
	"net"
	"os"
)

var errPlatform = errors.New("memory is shared as a descriptor on Linux alone")

func socketPair() (*net.UnixConn, *os.File, error) { return nil, nil, errPlatform }
func rightsOf([]*os.File) []byte                   { return nil }
func received([]byte) (*os.File, error)            { return nil, errPlatform }
