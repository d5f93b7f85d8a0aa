//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package outfile

import "os"

// renamesOpenFiles reports whether a file may be renamed while it is open.
const renamesOpenFiles = false

// lock does nothing where files have no locks of this kind.
func lock(*os.File) (busy bool) { return false }
