package tabular

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/partitiontest/drawtest"
)

// workbook has sheets named S1, S2 and so on, with rows of texts; a text that begins with < is a whole cell.
func workbook(t testing.TB, sheets ...[][]string) string {
	t.Helper()
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	put := func(name, text string) {
		w, err := archive.Create(name)
		testkit.Must(t, err)
		_, err = w.Write([]byte(text))
		testkit.Must(t, err)
	}
	var list, relations strings.Builder
	for i, rows := range sheets {
		fmt.Fprintf(&list, `<sheet name="S%d" r:id="r%d"/>`, i+1, i)
		fmt.Fprintf(&relations, `<Relationship Id="r%d" Type="x/worksheet" Target="s%d.xml"/>`, i, i)
		var cells bytes.Buffer
		for _, row := range rows {
			cells.WriteString("<row>")
			for _, text := range row {
				if strings.HasPrefix(text, "<") {
					cells.WriteString(text)
					continue
				}
				cells.WriteString(`<c t="inlineStr"><is><t>`)
				testkit.Must(t, xml.EscapeText(&cells, []byte(text)))
				cells.WriteString("</t></is></c>")
			}
			cells.WriteString("</row>")
		}
		put(fmt.Sprintf("xl/s%d.xml", i), "<worksheet><sheetData>"+cells.String()+"</sheetData></worksheet>")
	}
	put("xl/workbook.xml", `<workbook xmlns:r="urn:r"><sheets>`+list.String()+"</sheets></workbook>")
	put("xl/_rels/workbook.xml.rels", "<Relationships>"+relations.String()+"</Relationships>")
	testkit.Must(t, archive.Close())
	return b.String()
}

func TestAWorkbookIsTheSameTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawtest.Schema(rt)
		want := drawtest.Table(rt, s, 1, 8)
		header, rows := partitiontest.Texts(want)
		empty := false
		for _, row := range rows {
			empty = empty || strings.Join(row, "") == ""
		}
		if empty {
			return // a row without a value is none
		}
		raw := workbook(t, append([][]string{header}, rows...), nil)
		got, err := DecodeXLSX(s, strings.NewReader(raw), int64(len(raw)), "t.xlsx", "", Options{})
		testkit.Must(t, err)
		partitiontest.SameTables(t, want, got)
	})
}

func TestSheetsByName(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: x, kind: integer, lower: 0, upper: 9}]")
	sheet := func(cell string) [][]string { return [][]string{{"x"}, {}, {"<c><v>" + cell + "</v></c>"}} }
	folder := folderOf(t, map[string]string{"two.xlsx": workbook(t, nil, sheet("1"), sheet("2")),
		"one.XLSX": workbook(t, nil, sheet("3")), "none.xlsx": workbook(t, nil), "no-name": workbook(t, sheet("4")),
		"odd.xlsx#S3": workbook(t, sheet("5"))})
	for path, want := range map[string]float64{"two.xlsx#S2": 1, "two.xlsx#S3": 2, "one.XLSX": 3, "one.XLSX#S2": 3,
		"no-name": 4, "odd.xlsx#S3": 5} {
		got, err := Read(s, filepath.Join(folder, path), Options{})
		testkit.Must(t, err)
		testkit.Same(t, path, want, got.Cells(0)[0])
	}
	wantProblem(t, s, filepath.Join(folder, "two.xlsx"), Options{}, "two.xlsx",
		"2 sheets of the workbook have cells: S2, S3")
	wantProblem(t, s, filepath.Join(folder, "two.xlsx#S4"), Options{}, "two.xlsx#S4", "has no such sheet")
	wantProblem(t, s, filepath.Join(folder, "two.xlsx#S1"), Options{}, "two.xlsx#S1", "the sheet is empty")
	wantProblem(t, s, filepath.Join(folder, "none.xlsx"), Options{}, "none.xlsx", "all sheets of the workbook are")
	wantProblem(t, s, folder, Options{}, "no-name", "a workbook or archive among the parts")
}

func TestWorkbooksThatCannotBeRead(t *testing.T) {
	s := partitiontest.Schema(t, `columns: [{name: x, kind: integer, lower: 0, upper: 9}, {name: y, kind: binary}]`)
	rows := func(rows ...[]string) string { return workbook(t, rows) }
	ods := func() string {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, name := range []string{"mimetype", "content.xml"} {
			_, err := w.Create(name)
			testkit.Must(t, err)
		}
		testkit.Must(t, w.Close())
		return b.String()
	}
	for name, c := range map[string]struct{ raw, want string }{
		"a bad cell": {rows([]string{"y", "x"}, []string{"0", "SECRET"}),
			`t.xlsx, row 1, column "x": not a finite decimal number`},
		"an error": {rows([]string{"x", "y"}, []string{"1", "0"}, []string{"1", `<c t="e"><v>#N/A</v></c>`}),
			`t.xlsx, row 2, column "y": the cell has an error of the spreadsheet, such as #N/A; correct`},
		"a header of errors": {rows([]string{`<c t="e"><v>#N/A</v></c>`}), "(column 1 of the first row)"},
		"a missing column": {rows([]string{"x"}, []string{"1"}),
			`t.xlsx, column "y": the column is missing from the sheet's first row; add it to the sheet`},
		"a column too many": {rows([]string{"x", "y", "z"}, []string{"1", "0"}), `column "z": the column is not`},
		"a cell too many":   {rows([]string{"x", "y"}, []string{"1", "0", "SECRET"}), "row 1: the row has more cells"},
		"no header":         {rows([]string{"1", "0"}), "the first line has none of the schema's column names"},
		"no row":            {rows([]string{"x", "y"}), "there is a header but no row"},
		"OpenDocument":      {ods(), "an OpenDocument file (.ods); save it as .xlsx or as CSV"},
		"xls":               {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1rest", "(.xls), or one with a password; save it"},
		"damaged":           {rows([]string{"x", "y"})[:50], "the workbook is damaged: the archive is broken"},
	} {
		path := filepath.Join(folderOf(t, map[string]string{"t.xlsx": c.raw}), "t.xlsx")
		_, err := Read(s, path, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A workbook that another program wrote: see partition/xlsx.
func TestAWorkbookOfAnotherProgram(t *testing.T) {
	s := partitiontest.Schema(t, `columns:
  - {name: label, kind: binary}
  - {name: patient, role: unit}
  - {name: ward, kind: categorical, categories: [north, süd & <ost>], nullable: true}
  - {name: day, kind: date, lower: 1900-03-01, upper: 2024-12-31, format: DD.MM.YYYY, resolution: day}
  - {name: seen, kind: datetime, lower: 1999-12-31, upper: 2024-12-31, format: "DD.MM.YYYY hh:mm", resolution: day}
  - {name: dose, kind: continuous, lower: 0, upper: 1e12}
  - {name: share, kind: continuous, lower: 0, upper: 1}
  - {name: smoker, kind: binary}
`)
	got, err := Read(s, filepath.Join(partitiontest.Folder(), "xlsx", "testdata", "visits.xlsx"), Options{})
	testkit.Must(t, err)
	want := partition.NewTable(s)
	none := math.NaN()
	for _, row := range []struct {
		unit  string
		cells []float64
	}{
		{"P-1", []float64{1, none, 0, 45290, 8826, 1.1, 0.25, 1}},
		{"P-2", []float64{0, none, 1, 36831, 8827, 0.3, 0.5, 0}},
		{" P-3 ", []float64{1, none, none, 0, 0, 12345678901, 1, 1}},
	} {
		testkit.Must(t, want.Append(row.cells, row.unit))
	}
	partitiontest.SameTables(t, want, got)
}

// Cells that a sheet itself calls wrong are told with all others, and rows with remarks beside the table too.
func TestAllFaultsOfASheet(t *testing.T) {
	s := partitiontest.Schema(t, `columns:
  - {name: a, kind: integer, lower: 0, upper: 9}
  - {name: b, kind: integer, lower: 0, upper: 9, nullable: true}
`)
	wrong := `<c t="e"><v>#N/A</v></c>`
	raw := workbook(t, [][]string{{"a", "b"}, {wrong, "1"}, {"12", wrong}, {"3", `<c><f>A2*2</f><v></v></c>`},
		{"1", "2", "a remark"}, {wrong, "x"}, {"1", "2"}})
	_, err := DecodeXLSX(s, strings.NewReader(raw), int64(len(raw)), "t.xlsx", "", Options{})
	var v *Violations
	if !errors.As(err, &v) {
		t.Fatalf("error %v", err)
	}
	var got []string
	for _, f := range v.Found {
		got = append(got, fmt.Sprint(f.Column, " ", f.Times, " ", f.Rows))
	}
	testkit.Same(t, "violations", []string{"a 2 [1 5]", "a 1 [2]", "b 1 [2]", "b 1 [3]", "b 1 [5]", " 1 [4]"}, got)
	if v.Rows != 6 {
		t.Errorf("%d rows", v.Rows)
	}
}
