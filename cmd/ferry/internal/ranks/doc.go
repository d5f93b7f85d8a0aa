// Package ranks runs a program several times on this machine, as the ranks of one job: "ferry ranks".
//
// Each rank gets the variables by which package nccl finds the others. Its output has the rank before
// each line. When a rank fails, the others are ended. Package child runs the single programs.
package ranks
