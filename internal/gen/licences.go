package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenceTexts are sentences that only one licence has, by its SPDX name. A file can have several
// licences. The two of BSD differ by one clause.
var licenceTexts = map[string]string{
	"Apache-2.0":   "Apache License Version 2.0, January 2004",
	"MIT":          "Permission is hereby granted, free of charge, to any person obtaining a copy",
	"BSD-3-Clause": "may be used to endorse or promote products derived from this software without specific prior written permission",
	"ISC":          "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee",
	"MPL-2.0":      "Mozilla Public License Version 2.0",
	"GPL":          "GNU GENERAL PUBLIC LICENSE",
	"LGPL":         "GNU LESSER GENERAL PUBLIC LICENSE",
}

const redistribution = "Redistribution and use in source and binary forms, with or without modification, are permitted"

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-.].*)?$`)
	notWords    = regexp.MustCompile(`[\s*#/>]+`)
)

// readLicences returns the licences of a module: of the files in its root, and in the folders of
// the packages that are used and above them. A file whose text is not known is an error.
func readLicences(m *goModule) ([]string, error) {
	if m.dir == "" {
		return nil, fmt.Errorf("module %s is not on this machine: run \"go mod download\"", m.path)
	}
	folders := map[string]bool{m.dir: true}
	for dir := range m.packages {
		for ; within(filepath.ToSlash(dir), filepath.ToSlash(m.dir)); dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	found := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() || !licenceFile.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			names := licencesIn(string(text))
			if len(names) == 0 {
				return nil, fmt.Errorf("%s of module %s has a licence that internal/gen does not know", e.Name(), m.path)
			}
			for _, name := range names {
				found[name] = true
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("module %s has no file with a licence", m.path)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// licencesIn returns the SPDX names of the licences that a text has.
func licencesIn(text string) (names []string) {
	text = strings.ToLower(notWords.ReplaceAllString(text, " "))
	has := func(sentence string) bool { return strings.Contains(text, strings.ToLower(sentence)) }
	for _, name := range slices.Sorted(maps.Keys(licenceTexts)) {
		if has(licenceTexts[name]) {
			names = append(names, name)
		}
	}
	if has(redistribution) && !slices.Contains(names, "BSD-3-Clause") {
		names = append(names, "BSD-2-Clause")
	}
	return names
}
