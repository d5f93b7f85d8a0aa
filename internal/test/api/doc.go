// Package api has the tests of scenarios of package ferry: what a program that imports it sees.
// Tests that need the inside of the package, and its examples, stand beside it. The suite runs
// on the software GPU and, with FERRY_REQUIRE_GPU=1, on hardware.
package api
