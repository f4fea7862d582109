package xlsx

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// fixture reads a workbook that another program wrote.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	return testkit.Read(t, filepath.Join("testdata", name))
}

// readAll reads all rows of a sheet.
func readAll(raw []byte, sheet int) (rows [][]string, err error) {
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, err
	}
	if sheet >= len(f.Sheets) {
		return nil, os.ErrNotExist
	}
	for cells, err := range f.Rows(sheet, nil) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, slices.Clone(cells))
	}
	return rows, nil
}

func TestAWorkbookOfVisits(t *testing.T) {
	got, err := readAll(fixture(t, "visits.xlsx"), 0)
	testkit.Must(t, err)
	testkit.Same(t, "rows", [][]string{
		{"patient", "ward", "day", "seen", "dose", "share", "smoker", "label"},
		{"P-1", "north", "2024-02-29", "2024-02-29 13:04:05", "1.1", "0.25", "1", "1"},
		{"P-2", "süd & <ost>", "2001-01-01", "2024-03-01 00:00:00", "0.3", "0.5", "0", "0"},
		{" P-3 ", "", "1900-03-01", "1999-12-31 23:59:59", "12345678901", "1", "1", "1"},
	}, got)
	empty, err := readAll(fixture(t, "visits.xlsx"), 1)
	testkit.Must(t, err)
	testkit.Same(t, "rows of an empty sheet", 0, len(empty))
}

func TestSheets(t *testing.T) {
	raw := fixture(t, "two.xlsx")
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	testkit.Must(t, err)
	testkit.Same(t, "names", []string{"Visits 2024", "Notes"}, f.Sheets)
	rows, err := readAll(raw, 1)
	testkit.Must(t, err)
	testkit.Same(t, "the other sheet", [][]string{{"", "", "x"}}, rows)
}

func TestDays(t *testing.T) {
	for _, c := range []struct {
		from epoch
		days float64
		look look
		want string
	}{
		{false, 1, date, "1900-01-01"}, {false, 59, date, "1900-02-28"}, {false, 60, date, ""},
		{false, 61, date, "1900-03-01"}, {false, 45351, date, "2024-02-29"}, {false, 0, date, ""},
		{false, -1, date, ""}, {false, 2958465, date, "9999-12-31"}, {false, 2958466, date, ""},
		{false, 45351.5, date, "2024-02-29 12:00:00"}, {false, 45351, moment, "2024-02-29 00:00:00"},
		{false, 45351.544502314813, moment, "2024-02-29 13:04:05"}, {false, 0.5, clock, "12:00:00"},
		{false, 0.00000578704, clock, "00:00:00.5"}, {false, 45351.25, clock, "2024-02-29 06:00:00"},
		{true, 0, date, "1904-01-01"}, {true, 43889, date, "2024-02-29"},
	} {
		got, ok := c.from.dateText(c.days, c.look)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%v days from %v as %v: %q, want %q", c.days, c.from, c.look, got, c.want)
		}
	}
}

func TestFormatsOfDates(t *testing.T) {
	for code, want := range map[string]look{
		"General": number, "0.00": number, `#,##0.00 "days"`: number, `0.0\d`: number, "[Red]0": number,
		"[h]:mm": number, "[ss].00": number, "@": number, `#,##0_);[Red](#,##0)`: number, "[$kr-41D] #,##0": number,
		"0.00E+00": number, "yyyy-mm-dd": date, `dd\.mm\.yyyy`: date, "mmm-yy": date, "mmmm": date,
		"[$-409]d/m/yy": date,
		"d/m/yyyy h:mm": moment, "yyyy-mm-ddThh:mm:ss": moment, "h:mm AM/PM": clock, "mm:ss.0": clock,
		"dd/mm/yyyy;@": date, `0;"y"`: number,
	} {
		if got := lookOf(code); got != want {
			t.Errorf("%s: %d, want %d", code, got, want)
		}
	}
}

const namespace = `xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"`

// book is a workbook with one sheet of these rows.
func book(rows string) []byte {
	return bookOf("<worksheet " + namespace + "><sheetData>" + rows + "</sheetData></worksheet>")
}

func bookOf(sheet string) []byte {
	return archive(map[string]string{
		"xl/workbook.xml": `<workbook ` + namespace + ` xmlns:r="urn:r"><workbookPr/><sheets>` +
			`<sheet name="A" sheetId="1" r:id="s"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": `<Relationships><Relationship Id="s" Type="x/worksheet" Target="/xl/s.xml"/>` +
			`<Relationship Id="t" Type="x/sharedStrings" Target="t.xml"/>` +
			`<Relationship Id="f" Type="x/styles" Target="f.xml"/></Relationships>`,
		"xl/t.xml": `<sst><si><t>plain</t></si><si><r><t>ri</t></r><r><t xml:space="preserve">ch </t></r>` +
			`<rPh><t>no</t></rPh></si><si><t>a_x000D__x005F_x000D_</t></si></sst>`,
		"xl/f.xml": `<styleSheet><numFmts><numFmt numFmtId="164" formatCode="yyyy"/></numFmts>` +
			`<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs></styleSheet>`,
		"xl/s.xml": sheet,
	})
}

func archive(parts map[string]string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range parts {
		part, err := w.Create(name)
		if err == nil {
			_, err = part.Write([]byte(text))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestCells(t *testing.T) {
	for cell, want := range map[string]string{
		`<c><v>5</v></c>`:                                     "5",
		`<c><v>1.1000000000000001</v></c>`:                    "1.1",
		`<c><v>1.2E3</v></c>`:                                 "1200",
		`<c><v>-0.25</v></c>`:                                 "-0.25",
		`<c><v>00012345678901234567890</v></c>`:               "00012345678901234567890",
		`<c t="b"><v>1</v></c>`:                               "1",
		`<c t="s"><v>0</v></c>`:                               "plain",
		`<c t="s"><v>1</v></c>`:                               "rich ",
		`<c t="s"><v>2</v></c>`:                               "a\r_x000D_",
		`<c t="str"><f>A1&amp;"x"</f><v>joined</v></c>`:       "joined",
		`<c t="inlineStr"><is><t>in &lt;</t></is></c>`:        "in <",
		`<c s="1"><v>45351</v></c>`:                           "2024-02-29",
		`<c t="d"><v>2024-02-29T13:04:05</v></c>`:             "2024-02-29 13:04:05",
		`<c t="d"><v>2024-02-29</v></c>`:                      "2024-02-29",
		`<c><v>3</v><extLst><ext>no</ext></extLst></c>`:       "3",
		`<c t="n"><f>1+1</f><v>2</v></c>`:                     "2",
		`<c r="A7" s="0" t="n"><v>7</v></c><extLst></extLst>`: "7",
	} {
		rows, err := readAll(book("<row>"+cell+"</row>"), 0)
		testkit.Must(t, err)
		testkit.Same(t, cell, [][]string{{want}}, rows)
	}
}

func TestCellsThatCannotBeRead(t *testing.T) {
	for cell, want := range map[string]string{
		`<c t="e"><v>#N/A</v></c>`:    "column 2: the cell has an error of the spreadsheet",
		`<c><f>RAND()</f><v></v></c>`: "column 2: the cell has a formula whose result is not stored",
		`<c><f>RAND()</f></c>`:        "column 2: the cell has a formula whose result is not stored",
		`<c s="1"><v>60</v></c>`:      "column 2: the cell is shown as a date, and there is no such day",
		`<c><v>SECRET</v></c>`:        "column 2: the cell should store a number",
		`<c t="s"><v>3</v></c>`:       "a text that is not in the list",
		`<c s="2"><v>3</v></c>`:       "a format that is not in the list",
		`<c t="new"><v>3</v></c>`:     "unknown type",
		`<c r="A1"><v>3</v></c>`:      "cells that are not in their order",
		`<c r="ZZZZ1"><v>3</v></c>`:   "cells that are not in their order",
		`<c><v>SECRET<b/></v></c>`:    "elements in a value",
		`<c><v>SECRET</c>`:            "broken or cut off",
		`</row><row r="1">`:           "rows that are not in their order",
		`</row><row r="1048577">`:     "rows that are not in their order",
		`<c t="str"><v>` + strings.Repeat("SECRET", 1<<18) + `</v></c>`: "a text that is too long",
	} {
		_, err := readAll(book("<row><c><v>1</v></c>"+cell+"</row>"), 0)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%.40s: %.200v, want %q", cell, err, want)
		}
	}
}

func TestColumnsThatAreNotWanted(t *testing.T) {
	raw := book(`<row><c><v>1</v></c><c t="e"><v>#N/A</v></c></row><row><c r="B2"><f>RAND()</f></c></row>` +
		`<row><c r="A3"><v>2</v></c><c r="B3"><v>3</v></c><c r="C3"><v>4</v></c></row>`)
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	testkit.Must(t, err)
	var rows [][]string
	for cells, err := range f.Rows(0, func(column int) bool { return column != 1 }) {
		testkit.Must(t, err)
		rows = append(rows, slices.Clone(cells))
	}
	testkit.Same(t, "rows", [][]string{{"1", ""}, {"", ""}, {"2", "", "4"}}, rows)
}

func TestFilesThatAreNoWorkbooks(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"text":         {[]byte("a,b\n1,2\n"), ErrDamaged},
		"an archive":   {archive(map[string]string{"a.csv": "x\n"}), ErrArchive},
		"OpenDocument": {archive(map[string]string{"mimetype": "", "content.xml": ""}), ErrUnsupported},
		"binary":       {archive(map[string]string{"xl/workbook.bin": ""}), ErrUnsupported},
		"no relations": {archive(map[string]string{"xl/workbook.xml": "<workbook/>"}), ErrDamaged},
		"no rows":      {bookOf("<worksheet><other/></worksheet>"), ErrDamaged},
		"half a sheet": {bookOf("<worksheet><sheetData><row><c><v>1</v></c></row>"), ErrDamaged},
	} {
		if _, err := readAll(c.raw, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A flipped bit or a missing end never changes rows: all parts that are read have checksums.
func TestDamageIsAnError(t *testing.T) {
	whole := fixture(t, "streamed.xlsx")
	want, err := readAll(whole, 0)
	testkit.Must(t, err)
	testkit.Same(t, "rows", 61, len(want))
	noticed := 0
	for at := 0; at < len(whole); at += 7 {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		got, err := readAll(b, 0)
		if err != nil {
			noticed++
			continue
		}
		testkit.Same(t, "rows after a flipped bit", want, got)
	}
	if noticed == 0 {
		t.Error("no flip was noticed")
	}
	for cut := range 40 {
		if _, err := readAll(whole[:len(whole)*cut/40], 0); err == nil {
			t.Errorf("a file cut off after %d of 40 parts is read", cut)
		}
	}
}

// A part may not unpack to more than it claims, nor claim more than is allowed.
func TestArchivesThatUnpackToMuch(t *testing.T) {
	raw := book("<row><c><v>1</v></c></row>" + strings.Repeat(" ", maxToken+1<<13))
	if _, err := readAll(raw, 0); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a long text between rows: %v", err)
	}
	large := archive(map[string]string{"xl/workbook.xml": strings.Repeat(" ", maxPart+1),
		"xl/_rels/workbook.xml.rels": "<a/>"})
	if _, err := readAll(large, 0); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a large list of sheets: %v", err)
	}
}

func FuzzSheet(f *testing.F) {
	f.Add(`<row r="1"><c r="B1" t="s"><v>0</v></c><c s="1"><v>45351.5</v></c></row>`)
	f.Add(`<row><c t="inlineStr"><is><r><t>x</t></r></is></c><c t="e"><v>#N/A</v></c></row>`)
	f.Add(`</sheetData><row r="1048576"><c r="XFD1"><f>1</f></c></row>`)
	f.Fuzz(func(t *testing.T, rows string) {
		got, err := readAll(book(rows), 0)
		for _, row := range got {
			if len(row) == 0 || len(row) > mostColumns || row[len(row)-1] == "" {
				t.Errorf("a row of %d cells", len(row))
			}
		}
		var cell *CellError
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) &&
			!errors.Is(err, ErrArchive) && !errors.As(err, &cell) {
			t.Errorf("an error of no kind: %v", err)
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add(fixture(f, "two.xlsx"))
	f.Add(book("<row><c><v>1</v></c></row>"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, err := readAll(raw, 0)
		var cell *CellError
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) &&
			!errors.Is(err, ErrArchive) && !errors.As(err, &cell) && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("an error of no kind: %v", err)
		}
	})
}
