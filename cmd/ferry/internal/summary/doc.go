// Package summary reduces a result of "ferry bench" to one screen. For each kind of
// operation it has the value reached, its ceiling, the first cause of a shortfall, and the
// fit of its times to a straight line. It also has the sizes at which one kind overtakes
// another. It measures nothing.
package summary
