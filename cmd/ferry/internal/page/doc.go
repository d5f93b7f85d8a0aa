// Package page writes a result as one HTML file: charts, a sentence and a table for each,
// and the data. The file needs no network. Without scripts it shows the sentences and the
// tables.
//
// [Of] makes a [Page] of the document that --json writes, and [OfRecording] makes one of a
// recording. So a page has the numbers of the document and no others. A [Chart] without
// data is left out. [Page.Render] writes the file. The charts are drawn by uPlot, which is
// in the directory uplot with its licence and checksums.
//
// The package measures nothing, and does not know how a command gets its results.
package page
