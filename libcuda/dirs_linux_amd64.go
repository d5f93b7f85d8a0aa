package libcuda

// libraryDirs lists where distributions, containers and WSL install the library.
var libraryDirs = []string{
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib64",
	"/usr/local/nvidia/lib64",
	"/usr/lib64/nvidia",
	"/usr/lib/wsl/lib",
	"/run/opengl-driver/lib",
}
