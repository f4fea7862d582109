package partitiontest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// Shared returns the path of a file of the shared data sets, which are not part of the repository.
func Shared(t testing.TB, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{Folder(), "..", "..", "shared", "data"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the shared data sets are not beside the project: %v", err)
	}
	return path
}

// Schema parses a schema.
func Schema(t testing.TB, text string) *partition.Schema {
	t.Helper()
	s, err := partition.ParseSchema([]byte(text))
	testkit.Must(t, err)
	return s
}

// Clinic is the schema of the visits in testdata/clinic.
func Clinic(t testing.TB) *partition.Schema {
	t.Helper()
	s, err := partition.LoadSchema(File("clinic", "schema.yaml"))
	testkit.Must(t, err)
	return s
}

// Folder is the folder of package partition, found from go.mod above the test's folder.
func Folder() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return filepath.Join(dir, "partition")
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	panic("the tests of tables run in a folder of the module")
}

// File is the path of a file in the package's testdata.
func File(parts ...string) string {
	return filepath.Join(append([]string{Folder(), "testdata"}, parts...)...)
}

// ImageSchema is the text of a schema of small images.
const ImageSchema = `label: y
format: idx
image: {height: 2, width: 3, channels: 1}
columns:
  - {name: p, kind: integer, lower: 0, upper: 255, repeat: 6}
  - {name: y, kind: categorical, categories: [cat, dog]}
`

// Schemas that tests of several packages learn.
const (
	// Mixed has a column of each kind, one with empty cells.
	Mixed = `
name: test
label: label
columns:
  - {name: a, kind: continuous, lower: 0, upper: 1}
  - {name: b, kind: continuous, lower: 0, upper: 1, nullable: true}
  - {name: c, kind: categorical, categories: [x, y, z]}
  - {name: d, kind: binary}
  - {name: label, kind: binary}
`
	// Wide has six features and two classes.
	Wide = `name: wide
label: label
columns:
  - {name: a, kind: continuous, lower: 0, upper: 1}
  - {name: b, kind: integer, lower: 0, upper: 120}
  - {name: c, kind: categorical, categories: [x, y, z]}
  - {name: d, kind: binary}
  - {name: label, kind: binary}
`
	// Bars are images in two classes.
	Bars = `name: bars
label: y
format: idx
image: {height: 4, width: 4, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 16}
  - {name: y, kind: categorical, categories: [left, right]}
`
)
