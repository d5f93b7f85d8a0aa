//go:build !race

package check_test

const raceBuild = false
