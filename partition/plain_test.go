package partition

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// gzipped compresses a text.
func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	testkit.Must(t, err)
	testkit.Must(t, z.Close())
	return b.String()
}

// Files that are not tables are identified by their format, also if gzipped.
func TestFormsThatAreNotRead(t *testing.T) {
	for start, want := range map[string]string{
		gzipped(t, "age\n1\n"):       "this is gzip data in gzip data; unpack it once",
		"PK\x03\x04":                 "this is a zip archive; unpack it, and name the file in it",
		"7z\xbc\xaf\x27\x1c\x00\x04": "this is a 7z archive; unpack it",
		"BZh91AY&SY\xff": "this is bzip2 data; unpack it, and name the file in it; gzip " +
			"is read as it is",
		"\xfd7zXZ\x00\x00\x04":          "this is xz data; unpack it",
		"\x28\xb5\x2f\xfd\x04":          "this is zstd data; unpack it",
		"\xff\xfe\x00\x00a\x00\x00\x00": "this is text in UTF-32; save the file as UTF-8",
		"%PDF-1.4\n%\xe2": "this is a PDF file; open it where it was made, and export the " +
			"table as CSV",
		"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":         "this is a file of an old Office, such as .xls; save it",
		"$FL2@(#) SPSS DATA FILE":                  "this is a file of SPSS; open it",
		"RDX3\nX\n":                                "this is a file of R; open it",
		"{\n  \"age\": [1, 2]}":                    "this is JSON; write the table as CSV or Parquet",
		"[\n  {\"age\": 1}]":                       "this is JSON; write",
		"<!DOCTYPE html>\n<table>":                 "this is HTML or XML; open it",
		"\n<html lang=\"en\"><body>":               "this is HTML or XML; open it",
		"<?xml version=\"1.0\" encoding='UTF-8'?>": "this is HTML or XML; open it",
	} {
		for _, text := range []string{start, gzipped(t, start)} {
			if text == start && strings.HasPrefix(text, "\x1f\x8b") {
				continue
			}
			if _, err := OpenPlain(strings.NewReader(text), "t"); err == nil ||
				!strings.HasPrefix(err.Error(), "t: "+want) {
				t.Errorf("%q: %v, want %s", start, err, want)
			}
		}
	}
}

// Headers that resemble other formats are read.
func TestStartsOfTables(t *testing.T) {
	for _, text := range []string{"", "PK,age\n", "BZh9,age\n", "[id],[age]\n", "{id},age\n", "<id>,age\n",
		"RDX3,age\n", "%PDF,age\n", "\xff\xfea\x00", "\x00\x00\x08\x03", "\"sep=\",age\n", "age\r\n41\r\n",
		"\r\n\r\nage\r\n", "age\tsex\n"} {
		plain, err := OpenPlain(strings.NewReader(text), "t")
		testkit.Must(t, err)
		var b bytes.Buffer
		_, err = b.ReadFrom(plain)
		testkit.Must(t, err)
		testkit.Same(t, "text", text, b.String())
		if text == "" || text[0] < 0x80 && text[0] >= '\t' {
			if bad := CheckFirstLine(text); bad != nil {
				t.Errorf("%q: %v", text, bad)
			}
		}
	}
}

func TestFirstLines(t *testing.T) {
	for text, want := range map[string]string{
		"age,sex\r41,F\r": "line 1: the lines end with CR only, as on old Macintoshes; save the file with " +
			"line ends LF",
		"\n\nage,s\x00ex\n41,F\n": "there are control characters, so this is not a text file",
		"age,sex\n41,\x00\n":      "there are control characters",
		"sep=;\nage;sex\n":        "line 1: the first line is for Excel (sep=), not a header; remove",
		"\"sep=,\"\r\nage,sex\n":  "line 1: the first line is for Excel",
		"SEP=\t\nage\tsex\n":      "line 1: the first line is for Excel",
	} {
		if bad := CheckFirstLine(text); bad == nil || !strings.HasPrefix(bad.Error(), want) {
			t.Errorf("%q: %v, want %s", text, bad, want)
		}
	}
}
