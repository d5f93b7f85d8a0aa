package libcuda

// libraryDirs are where distributions, containers and WSL put the library.
var libraryDirs = []string{
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib64",
	"/usr/local/nvidia/lib64",
	"/usr/lib64/nvidia",
	"/usr/lib/wsl/lib",
	"/run/opengl-driver/lib",
}
