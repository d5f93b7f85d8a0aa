package cutest

var captureChecks []check
var captureMisuseChecks []check
var graphChecks []check
var graphUpdateChecks []check
var moduleChecks []check
var functionChecks []check
var launchChecks []check
var launchMisuseChecks []check
var twoContextChecks []check
var peerSelfChecks []check
var multiDeviceChecks []check
var faultChecks []check
