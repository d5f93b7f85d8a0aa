package sfu

// SetTables replaces the tables.
func SetTables(t Tables) { loaded = func() Tables { return t } }

// Loaded returns the tables.
func Loaded() Tables { return loaded() }
