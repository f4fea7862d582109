package proposal

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// A table in any dialect gives the same proposal, except for the dialect.
func TestDialects(t *testing.T) {
	const plain = "größe_cm,rate,sex\n" + "170.5,1.25,F\n181.0,2.5,M\n"
	table := plain + strings.Repeat("170.5,1.25,F\n", 30)
	semicolons := strings.NewReplacer(",", ";", ".", ",").Replace(table)
	want, _ := proposed(t, table, "")
	testkit.Same(t, "plain", CSV{}, want.CSV)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte(table))
	testkit.Must(t, err)
	testkit.Must(t, z.Close())
	latin1, err := charmap.Windows1252.NewEncoder().String(semicolons)
	testkit.Must(t, err)
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(semicolons)
	testkit.Must(t, err)
	for text, csv := range map[string]CSV{
		zipped.String():                         {},
		"\ufeff" + table:                        {},
		semicolons:                              {Delimiter: ";", Decimal: ","},
		latin1:                                  {Encoding: "latin1", Delimiter: ";", Decimal: ","},
		utf16:                                   {Delimiter: ";", Decimal: ","},
		strings.ReplaceAll(table, ",", "\t"):    {Delimiter: "\t"},
		strings.ReplaceAll(table, ",", "|"):     {Delimiter: "|"},
		strings.ReplaceAll(table, "\n", "\r\n"): {},
		strings.ReplaceAll(table, ",F\n", ",\"F\"\n"): {},
	} {
		got, _ := proposed(t, text, "")
		testkit.Same(t, "dialect", csv, got.CSV)
		testkit.Same(t, "columns", want.Columns, got.Columns)
	}
}

// Semicolons, and commas in numbers and in texts: the lines that agree decide.
func TestDelimiters(t *testing.T) {
	for text, want := range map[string]rune{
		"a;b;c\n1,5;2,5;3\n":            ';',
		"a,b\n1,\"x;y;z;z\"\n":          ',',
		"a\n1\n":                        ',',
		"a;b\n\"x,y\";1\n\"x,y,z\";2\n": ';',
		"a|b|c\n1|2|3\n":                '|',
		"":                              ',',
	} {
		testkit.Same(t, text, string(want), string(delimiterOf([]byte(text))))
	}
}

// For any bytes the proposal is YAML with a column for each in the header, or an error.
func FuzzTable(f *testing.F) {
	f.Add([]byte("a,b\n1,x\n2,y\n"))
	f.Add([]byte("größe;b\n1,5;x y\n;03.04.2020\n"))
	f.Add([]byte("\xff\xfea\x00,\x00b\x00\n\x001\x00,\x002\x00\n\x00"))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(folder, "t.csv")
		testkit.Must(t, os.WriteFile(path, text, 0o600))
		p, err := Propose(Options{Files: []string{path}})
		if err != nil {
			return
		}
		var file struct {
			Ignore  []string         `yaml:"ignore"`
			Columns []map[string]any `yaml:"columns"`
		}
		if err := yaml.Unmarshal(p.YAML(), &file); err != nil {
			t.Fatalf("%v\n%s", err, p.YAML())
		}
		if len(file.Columns) != len(p.Columns) || len(file.Ignore) != len(p.Ignored) {
			t.Errorf("%d and %d columns are written as\n%s", len(p.Columns), len(p.Ignored), p.YAML())
		}
		for i, c := range file.Columns {
			if c["name"] != p.Columns[i].Name {
				t.Errorf("%q is written as %q", p.Columns[i].Name, c["name"])
			}
		}
	})
}
