// The loader of the page: it unpacks the script and the data, which are compressed. Without it,
// and in a browser that cannot unpack, the page is that without scripts.
(function () {
"use strict";
var doc = document, root = doc.documentElement;
function unpack(id) {
  var text = atob(doc.getElementById(id).textContent), bytes = new Uint8Array(text.length);
  for (var i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
function end() {
  root.classList.remove("wait");
  if (!root.classList.contains("js")) doc.getElementById("old").hidden = false;
}
root.classList.add("wait");
Promise.resolve().then(function () {
  return Promise.all(["charts", "document", "script"].map(unpack));
}).then(function (all) {
  window.ferryPage = { charts: JSON.parse(all[0]), document: all[1] };
  var script = doc.createElement("script");
  script.textContent = all[2];
  doc.head.append(script);
}).then(end, end);
})();
