// Package wrappers has the one registry of the drivers that environment variables wrap. Packages
// fault, trace and check ask it for their wrapper of a driver when package ferry opens a device.
//
// The rule is the same for all three: a driver has one wrapper of each package as long as somebody
// uses that wrapper. So the GPUs of one driver are GPUs of one wrapper, also if the program closes
// some and opens others. Two drivers are the same if their values are equal.
//
// The registry itself keeps no wrapper and no driver. It has weak pointers to the wrappers, and asks
// each which driver it wraps: a map with the drivers as keys would keep them. A software GPU refers
// to the wrapper of package trace, which observes it, so that map would never get empty.
//
// What a wrapper does is not in this package, nor are the variables that ask for one.
package wrappers
