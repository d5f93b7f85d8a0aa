// Package calibrate makes a profile of a machine from a result of "ferry bench", in seconds:
// "ferry bench --save-profile". It starts from the profile of the nearest machine. The
// device's attributes replace those of that profile. Each curve and the most important
// numbers then move by the error of the operations that depend on them, once. Package
// cmd/ferry/internal/fit fits all numbers, in many rounds.
//
// Only the half of the cases that is for fitting is used ([grid.Case.Fits]), so that
// "ferry profile check" judges by the other half.
package calibrate
