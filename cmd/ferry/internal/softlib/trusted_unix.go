//go:build unix

package softlib

import (
	"io/fs"
	"os"
	"syscall"
)

// trusted reports whether a folder belongs to this user, or to the administrator.
func trusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
