package tabular

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

func TestAllProblemsOfATableAreNamed(t *testing.T) {
	s, err := partition.ParseSchema([]byte("columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n  - {name:" +
		" c, kind: categorical, categories: [p, q]}\n"))
	testkit.Must(t, err)
	path := filepath.Join(t.TempDir(), "t.csv")
	write := func(text string) {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("x,c\n0.5,p\nsecret,secret\n0.5\n0.5,q\n0.5,r\n")
	problems := CSVProblems(s, path, Options{}, 10)
	want := []string{`row 2 (line 3), column "x"`, `row 2 (line 3), column "c"`, "row 3 (line 4): the row has not",
		`row 5 (line 6), column "c"`}
	if len(problems) != len(want) {
		t.Fatalf("%d problems: %v", len(problems), problems)
	}
	for i, w := range want {
		if text := problems[i].Error(); !strings.Contains(text, w) || strings.Contains(text, "secret") ||
			!strings.Contains(text, "; ") {
			t.Errorf("problem %d is %q, want %q, a fix and no value", i, text, w)
		}
	}
	if few := CSVProblems(s, path, Options{}, 1); len(few) != 1 {
		t.Errorf("%d problems where one was asked for", len(few))
	}
	write("x,c\n0.5,p\n0.5,q\n")
	if none := CSVProblems(s, path, Options{}, 10); len(none) != 0 {
		t.Errorf("problems of a good table: %v", none)
	}
	write("x,c\n0.5,\"p\n")
	if one := CSVProblems(s, path, Options{}, 10); len(one) != 1 {
		t.Errorf("broken quotes: %v", one)
	}
	for _, text := range []string{"", "y,z\n"} {
		write(text)
		if one := CSVProblems(s, path, Options{}, 10); len(one) != 1 {
			t.Errorf("%q: %v", text, one)
		}
	}
	if one := CSVProblems(s, path+".none", Options{}, 10); len(one) != 1 {
		t.Errorf("no file: %v", one)
	}
}
