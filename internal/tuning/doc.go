// Package tuning has what package ferry decides by on one machine: sizes from which it takes
// another way to copy, page-lock or wait. The values come from package profile.
package tuning
