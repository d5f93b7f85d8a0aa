// Package profiles shows profiles: the list of those that Ferry ships, and the figures of
// one with their sources.
package profiles
