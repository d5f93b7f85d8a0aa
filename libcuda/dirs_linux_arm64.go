package libcuda

// libraryDirs lists where distributions, containers and Jetson install the library.
var libraryDirs = []string{
	"/usr/lib/aarch64-linux-gnu",
	"/usr/lib64",
	"/usr/local/nvidia/lib64",
	"/usr/lib/aarch64-linux-gnu/nvidia",
	"/usr/lib/aarch64-linux-gnu/tegra",
	"/run/opengl-driver/lib",
}
