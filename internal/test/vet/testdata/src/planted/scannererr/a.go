package scannererr

import (
	"bufio"
	"io"
)

func lines(r io.Reader) (n int) {
	s := bufio.NewScanner(r) // want "is used in Scan loop"
	for s.Scan() {
		n++
	}
	return n
}
