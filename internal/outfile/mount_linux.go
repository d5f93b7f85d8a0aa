package outfile

import "golang.org/x/sys/unix"

// isMount reports whether a file is mounted at a path. Linux cannot rename another file to there.
// Before Linux 5.8 it is not known, and the rename fails.
func isMount(path string) bool {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &s)
	return err == nil && s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
