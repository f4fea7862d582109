package tabular

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// unfinished lists names that show that the other files of a folder are not simply the table.
var unfinished = map[string]*partition.InputError{
	"_temporary": {Problem: "the program that writes this folder has not finished, or failed",
		Fix: "wait for it, or write the table again"},
	"_delta_log": {Problem: "a Delta table, some of whose files may hold rows that were deleted",
		Fix: "write its newest version to another folder, as plain Parquet"},
	".hoodie": {Problem: "a Hudi table, some of whose files may hold rows that were replaced",
		Fix: "write its newest version to another folder, as plain Parquet"},
}

// Files returns the files that [Read] reads for a path: those of a folder or of a pattern such as parts/*.csv, in
// natural order of their names (part-2 before part-10), the workbook whose sheet is named, or otherwise the path
// itself, which may be missing. It excludes names that begin with _ or a dot, checksums (*.crc) and lists of files
// (*.manifest.json), which programs write beside parts. Errors are *InputError.
func Files(path string) ([]string, error) {
	if file, sheet := cutSheet(path); sheet != "" {
		return []string{file}, nil
	}
	info, err := os.Stat(path)
	var names []string
	switch {
	case err == nil && info.IsDir():
		names, err = namesIn(path)
	case err != nil && strings.ContainsAny(path, "*?["):
		names, err = namesLike(path)
	default:
		return []string{path}, nil
	}
	if err != nil {
		return nil, err
	}
	parts := slices.DeleteFunc(names, func(name string) bool {
		base := filepath.Base(name)
		return base[0] == '_' || base[0] == '.' || strings.HasSuffix(base, ".crc") ||
			strings.HasSuffix(base, ".manifest.json")
	})
	if len(parts) == 0 {
		return nil, &partition.InputError{File: path, Problem: "there is no file of rows",
			Fix: "check the path; names that start with _ or a dot are skipped"}
	}
	slices.SortFunc(parts, naturally)
	return parts, checkParts(parts)
}

func namesIn(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, &partition.InputError{File: folder, Problem: "cannot read the folder",
			Fix: "check path and permissions", Err: partition.WithoutPath(err)}
	}
	for _, e := range entries {
		if bad := unfinished[e.Name()]; bad != nil {
			return nil, &partition.InputError{File: folder, Problem: bad.Problem, Fix: bad.Fix}
		}
		names = append(names, filepath.Join(folder, e.Name()))
	}
	return names, nil
}

func namesLike(pattern string) ([]string, error) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, &partition.InputError{File: pattern, Problem: "not a pattern of names",
			Fix: `close the bracket, or write \[ for one in a name`}
	}
	for _, name := range names {
		// If the pattern selects among such folders, their names hold a column of the rows.
		if folder := filepath.Dir(name); folder != filepath.Dir(pattern) && isHive(filepath.Base(folder)) {
			return nil, hiveFolder(folder)
		}
	}
	return names, nil
}

// isHive detects folders like year=2024, whose name is a cell of all rows in it.
func isHive(name string) bool { return strings.Contains(name, "=") }

func hiveFolder(path string) *partition.InputError {
	return &partition.InputError{File: path, Problem: "a folder whose name holds a column of the rows in it",
		Fix: "write the table without partitioning by columns"}
}

// checkParts refuses parts that are not files, and duplicates.
func checkParts(parts []string) error {
	var seen []os.FileInfo
	for _, path := range parts {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return &partition.InputError{File: path, Problem: "cannot read the part",
				Fix: "check path and permissions", Err: partition.WithoutPath(err)}
		case info.IsDir() && isHive(filepath.Base(path)):
			return hiveFolder(path)
		case info.IsDir():
			return &partition.InputError{File: path, Problem: "a folder among the parts",
				Fix: "move it away, or give the folder with the files of rows"}
		case !info.Mode().IsRegular():
			return &partition.InputError{File: path, Problem: "not a regular file", Fix: "remove it from the parts"}
		}
		if slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			return &partition.InputError{File: path, Problem: "another part is the same file under another name",
				Fix: "remove the link, because its records would count twice"}
		}
		seen = append(seen, info)
	}
	return nil
}

// naturally compares names in natural order: numbers in them by value.
func naturally(a, b string) int {
	whole := cmp.Compare(a, b) // if numbers differ only in leading zeros
	for a != "" && b != "" {
		m, n := digits(a), digits(b)
		if m > 0 && n > 0 {
			x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[m:], b[n:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), whole)
}

// digits is the number of digits at the start of a text.
func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}
