package secureenv

import "golang.org/x/sys/unix"

// atSecureKey is AT_SECURE, the key of the kernel's word in the auxiliary vector.
const atSecureKey = 23

// atSecure reads the auxiliary vector, which the kernel gave to this process. A file of
// /proc can be missing. If there is no vector, user and group numbers decide.
func atSecure() bool {
	vector, err := unix.Auxv()
	if err != nil {
		return differ()
	}
	return secureIn(vector)
}

// secureIn reports whether a vector has the word.
func secureIn(vector [][2]uintptr) bool {
	for _, entry := range vector {
		if entry[0] == atSecureKey {
			return entry[1] != 0
		}
	}
	return differ()
}

// differ reports whether the program has the rights of another user or group.
func differ() bool {
	return unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid()
}
