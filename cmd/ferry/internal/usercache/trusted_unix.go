//go:build unix

package usercache

import (
	"io/fs"
	"os"
	"syscall"
)

// Trusted reports whether a folder belongs to this user, or to the administrator.
func Trusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
