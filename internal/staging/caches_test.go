package staging

import (
	"testing"
	"testing/fstest"
)

func TestReadCaches(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	for _, c := range []struct {
		name string
		dir  fstest.MapFS
		want caches
	}{
		{"a server", fstest.MapFS{
			"index0/level": file("1"), "index0/type": file("Data"), "index0/size": file("48K"),
			"index1/level": file("1"), "index1/type": file("Instruction"), "index1/size": file("32K"),
			"index2/level": file("2"), "index2/type": file("Unified"), "index2/size": file("2048K"),
			"index3/level": file("3"), "index3/type": file("Unified"), "index3/size": file("107520K"),
		}, caches{2 << 20, 105 << 20}},
		{"no level 3", fstest.MapFS{
			"index0/level": file("2"), "index0/type": file("Unified"), "index0/size": file("512K"),
		}, caches{512 << 10, 512 << 10}},
		{"nonsense", fstest.MapFS{
			"index0/level": file("two"), "index0/type": file("Unified"), "index0/size": file("512K"),
			"index1/level": file("3"), "index1/type": file("Unified"), "index1/size": file("-1K"),
		}, caches{1 << 20, 32 << 20}},
		{"nothing", fstest.MapFS{}, caches{1 << 20, 32 << 20}},
	} {
		if got := readCaches(c.dir); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
