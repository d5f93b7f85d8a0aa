// Package capability reads what a device can do, as far as package ferry decides by it.
package capability
