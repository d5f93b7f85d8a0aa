// Package forktest runs functions of tests in a child that a raw fork makes, on Linux.
package forktest
