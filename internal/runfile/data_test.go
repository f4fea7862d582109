package runfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// No record may get to two sites, however their files are named.
func TestSitesThatShareFiles(t *testing.T) {
	dir := write(t, map[string]string{"schema.yaml": "columns: [{name: x, kind: integer, lower: 0, upper: 9}]\n",
		"parts/1.csv": "x\n1\n", "parts/2.csv": "x\n2\n", "other.csv": "x\n3\n"})
	testkit.Must(t, os.Symlink("parts", filepath.Join(dir, "linked")))
	schema, err := partition.LoadSchema(filepath.Join(dir, "schema.yaml"))
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		a, b string
		want [2]float64 // where the part of b begins and ends, for both halves
		err  string
	}{
		"two files":             {"parts/1.csv", "parts/2.csv", [2]float64{0, 0.5}, ""},
		"a folder twice":        {"parts", "parts/", [2]float64{0.5, 1}, ""},
		"a folder and its link": {"parts", "linked", [2]float64{0.5, 1}, ""},
		"a folder and a pattern of all": {"parts", "parts/*.csv", [2]float64{0.5, 1},
			""},
		"a folder and another file": {"parts", "other.csv", [2]float64{0, 0.5}, ""},
		"a folder and its part":     {"parts", "parts/1.csv", [2]float64{}, "parts/1.csv is also a file of site a"},
		"a part and its pattern": {"linked/2.csv", "parts/*.csv", [2]float64{},
			"parts/2.csv is also a file of site a"},
		"two sheets":               {"a.xlsx#A", "a.xlsx#B", [2]float64{0, 0.5}, ""},
		"a sheet twice":            {"a.xlsx#A", "a.xlsx#A", [2]float64{0.5, 1}, ""},
		"a workbook and its sheet": {"a.xlsx", "a.xlsx#A", [2]float64{}, "a.xlsx is also a file of site a"},
		"no folder":                {"parts", "none*", [2]float64{}, "there is no file of rows"},
	} {
		s := DefaultSpec()
		s.Data = []Data{{Site: "a", File: filepath.Join(dir, c.a), Share: 0.5},
			{Site: "b", File: filepath.Join(dir, c.b), Share: 0.5}}
		err := s.checkShares()
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		testkit.Must(t, err)
		testkit.Same(t, name, [][2]float64{{0, 0.5}, c.want}, s.Sites(schema))
	}
}
