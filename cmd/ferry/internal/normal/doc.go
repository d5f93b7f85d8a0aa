// Package normal says which times of "ferry bench" are normal for a machine. A [Reference]
// has the times of several machines of one type, and how far they are apart. [Compare]
// finds the times that are further away. References of the machines that were measured are
// part of the program: [Named], [Nearest].
package normal
