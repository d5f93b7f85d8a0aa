// Package variables knows the environment variables that Ferry reads, so that "ferry help
// environment" lists all, and a misspelled one does not do nothing in silence.
package variables
