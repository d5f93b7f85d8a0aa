package dlpack

import _ "embed"

// PythonModule is the text of python/ferry_dlpack.py, for programs that start Python themselves: they
// write it to a folder where Python looks for modules.
//
//go:embed python/ferry_dlpack.py
var PythonModule string
