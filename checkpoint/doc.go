// Package checkpoint moves the tensors of models between files and GPUs. It reads safetensors and
// GGUF, in one file or in several, and writes safetensors.
//
//	c, err := checkpoint.Open("model.safetensors.index.json")  // reads headers only
//	defer c.Close()
//	weights, err := checkpoint.Load(ctx, stream, c, nil)        // all tensors in one device buffer
//	head, err := checkpoint.Tensor[uint16](weights, "lm_head.weight")
//
// Bytes go from the files through the page-locked staging ring of package ferry to the device, in
// the order of the file; without conversions as one transfer. So memory on the host is the ring and the headers, however
// large the model is.
//
// Files are not trusted: see [Open].
//
// # Files
//
//   - checkpoint.go, dtype.go: Checkpoint, its tensors and their types
//   - open.go, shards.go: which files a checkpoint has
//   - safetensors.go, gguf.go: the two formats
//   - load.go, select.go, place.go: Load, and where tensors go
package checkpoint
