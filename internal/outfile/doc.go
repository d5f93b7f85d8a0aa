// Package outfile writes the files that a user names. What was there stays until the new
// contents are whole: they are written to a file beside it, synchronized with the disk, and
// renamed. A disk that is full, an interrupt and a crash leave the old file.
//
// A file keeps its permissions and, where the system lets us, its owner. A symbolic link stays,
// and the file that it leads to is written. Another hard link keeps the old contents. A file
// that the user may not write is refused, although its folder would let us replace it.
//
// What is no regular file is refused: a folder, a device, a named pipe or a socket. The null
// device is written as it is, and so are open descriptors: /dev/stdout, /dev/stderr, /dev/fd/N
// and /proc/self/fd/N, which a shell gives for >(COMMAND).
//
// All code of Ferry that writes such files calls this package. TestOutputFiles in
// internal/test/api demands that, and has the exceptions.
package outfile
