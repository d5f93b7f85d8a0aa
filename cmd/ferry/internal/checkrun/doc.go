// Package checkrun runs a program with all checks of Ferry on, and reports what they have
// found: "ferry check".
package checkrun
