package secureenv

import "golang.org/x/sys/unix"

// atSecureKey is AT_SECURE, the key of the kernel's word in the auxiliary vector.
const atSecureKey = 23

// atSecure reads the auxiliary vector, which the kernel gave to this process.
func atSecure() bool {
	vector, err := unix.Auxv()
	if err != nil {
		return withoutVector()
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
	return withoutVector()
}

// withoutVector answers where Go has found no vector. That is so in a privileged program
// whose user sets LD_LIBRARY_PATH: the loader removes the variable from the stack, and Go
// looks for the vector right behind the variables. So every doubt counts as privileged:
// another user or group, a process that must not be dumped (the kernel sets that for a
// program with new rights), and capabilities of a user who is not root.
func withoutVector() bool {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return err != nil || dumpable != 1 || differ() || unix.Geteuid() != 0 && hasCapabilities()
}

// differ reports whether the program has the rights of another user or group.
func differ() bool {
	return unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid()
}

// hasCapabilities reports whether the process has any capability, or does not say.
func hasCapabilities() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // the lower and the upper 32 bits
	err := unix.Capget(&header, &sets[0])
	return err != nil || sets[0].Permitted|sets[1].Permitted != 0
}
