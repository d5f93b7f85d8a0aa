// Package leak reports objects that the garbage collector finds unused although they were
// not closed. It never frees them: what they own may still be in use.
package leak
