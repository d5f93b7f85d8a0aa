package compile

import (
	"os"
	"path/filepath"
	"strings"
)

// cudaHeader is a header that tells a directory with CUDA's headers.
const cudaHeader = "cuda_fp16.h"

// cudaInclude returns the directory with CUDA's own headers beside a library, or "".
func cudaInclude(library string) string {
	if !filepath.IsAbs(library) {
		return ""
	}
	dir := filepath.Dir(library)
	for _, place := range []string{"../include", "../../cuda_runtime/include", "../../../include"} {
		include := filepath.Join(dir, place)
		if strings.HasPrefix(include, "/usr/include") {
			continue // has the C library's headers too, which are not for a GPU
		}
		if info, err := os.Stat(filepath.Join(include, cudaHeader)); err == nil && info.Mode().IsRegular() {
			return include
		}
	}
	return ""
}
