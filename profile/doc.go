// Package profile describes machines: what a device can do, and how long its link,
// engines and driver calls take. A [Profile] is one JSON document for one machine.
//
// The software GPU emulates the machine of a profile. Ferry reads its own settings for
// a machine from the part [Tuning]. Each figure about a machine's speed stands in a
// profile, with its source: a measurement, a datasheet or a guess. On hardware without a
// matching profile Ferry uses conservative defaults, or measures when it needs a figure.
//
// A [Number] is one value. A [Curve] is a time as a function of a number of bytes. It is
// given by points, and is linear between them and beyond the last.
// docs/generated/profile.md lists all fields.
package profile
