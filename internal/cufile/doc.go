// Package cufile finds out what cuFile can do on this machine: the library of NVIDIA's GPUDirect
// Storage, which lets disks write into the memory of a GPU. It reads no files.
//
// The library works anywhere, but its direct path needs the kernel module nvidia-fs and a file
// system that it knows. Without them cuFile reads into host memory and copies from there
// (compatibility mode), as Ferry does. [Probe] tells which of the two it is.
package cufile
