package cutest

var moduleChecks []check
var functionChecks []check
var launchChecks []check
var launchMisuseChecks []check
var twoContextChecks []check
var peerSelfChecks []check
var multiDeviceChecks []check
var faultChecks []check
