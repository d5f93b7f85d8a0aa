// Package address converts between Go memory, host addresses and device addresses. It has
// all unsafe code of package ferry. It knows no buffers: its callers check and acquire the
// memory first, and check that elements have no Go pointers and no bool.
package address
