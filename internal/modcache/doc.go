// Package modcache keeps what was made from the bytes of a module: its parsed PTX, and for
// the software GPU its decoded program. A module that is loaded again is not parsed again.
//
// What is kept does not change and has no state: each load has its own variables. Keys are
// the bytes themselves, so two modules never share a value by accident. A cache is bounded
// by the bytes of its keys, and drops what was not used for longest. It keeps the last errors
// of keys that are too large for it, because ferry and the software GPU parse the same text.
package modcache
