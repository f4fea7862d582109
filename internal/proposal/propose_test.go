package proposal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// write puts a text into a file of a new folder.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// proposed returns the columns of a proposal for a table, as in the schema, with remarks.
func proposed(t testing.TB, table, dictionary string) (p *Proposal, columns map[string]string) {
	t.Helper()
	o := Options{Files: []string{write(t, "table.csv", table)}}
	if dictionary != "" {
		o.Dictionary = write(t, "dictionary", dictionary)
	}
	p, err := Propose(o)
	testkit.Must(t, err)
	columns = map[string]string{}
	for i := range p.Columns {
		c := &p.Columns[i]
		columns[c.Name] = strings.TrimPrefix(c.fields(), "name: "+word(c.Name)+", ")
		if comment := c.Comment(); comment != "" {
			columns[c.Name] += " # " + comment
		}
	}
	for _, c := range p.Ignored {
		columns[c.Name] = "ignored: " + c.Why
	}
	return p, columns
}

// rows makes a table of one column, with cells from a function.
func rows(name string, n int, cell func(i int) string) string {
	var b strings.Builder
	b.WriteString(name + ",other\n")
	for i := range n {
		b.WriteString(cell(i) + ",1\n")
	}
	return b.String()
}

const (
	bounds       = "lower: TODO, upper: TODO, source: TODO"
	numberRemark = " # write public bounds, from documentation or knowledge of the field"
	wholeRemark  = " # write public bounds, or kind: categorical and the categories if the numbers are codes"
	dateRemark   = " # write the first and the last possible day, such as 2015-01-01, from the table's documentation"
	rowsRemark   = " # outside the guarantee: from the rows"
	unitRemark   = " # if it identifies the persons to protect, write role: unit in place of the kind"
)

func TestColumns(t *testing.T) {
	of := func(values ...string) func(int) string { return func(i int) string { return values[i%len(values)] } }
	for _, test := range []struct {
		name string
		cell func(i int) string
		want string
	}{
		{"score", func(i int) string { return fmt.Sprintf("%d.%d", i%7, i) }, "kind: continuous, " + bounds +
			numberRemark},
		{"points", func(i int) string { return fmt.Sprint(i % 90) }, "kind: integer, " + bounds + wholeRemark},
		{"points", func(i int) string { return fmt.Sprintf("%d.0", i%90) }, "kind: integer, " + bounds + wholeRemark},
		{"points", of("1", "", "3"), "kind: integer, lower: TODO, upper: TODO, nullable: true, source: TODO" +
			wholeRemark},
		{"points", of("1", "NA", "3"), "kind: integer, lower: TODO, upper: TODO, nullable: true, source: TODO" +
			wholeRemark + "; cells with a word for a missing value, such as NA, must be emptied"},
		{"dead", of("0", "1"), "kind: binary"},
		{"dead", of("0.0", "1.0"), "kind: binary"},
		{"children", of("0", "1"), "kind: integer, lower: 0, upper: 30, source: built-in, " +
			`doc: "children; The DHS Program, Standard Recode Manual, variable V201"`},
		{"smoker", of("yes", "no"), `kind: categorical, categories: ["no", "yes"], source: built-in`},
		{"sex", of("M", "F"), "kind: categorical, categories: [F, M], source: built-in"},
		{"sex", of("1", "2"), `kind: categorical, categories: ["1", "2"], source: rows` + rowsRemark},
		{"weight", of("71.5", "80"), "kind: continuous, " + bounds +
			" # weight, in which unit? kg: 0 to 650; lb: 0 to 1440"},
		{"visit", func(i int) string { return fmt.Sprintf("2024-01-%02d", 1+i%28) },
			"kind: date, lower: TODO, upper: TODO, format: YYYY-MM-DD, resolution: day, source: TODO" + dateRemark},
		{"visit", func(i int) string { return fmt.Sprintf("%02d/%02d/2024", 1+i%28, 1+i%12) },
			"kind: date, lower: TODO, upper: TODO, format: DD/MM/YYYY, resolution: day, source: TODO" + dateRemark},
		{"visit", func(i int) string { return fmt.Sprintf("%02d/%02d/2024", 1+i%12, 1+i%28) },
			"kind: date, lower: TODO, upper: TODO, format: MM/DD/YYYY, resolution: day, source: TODO" + dateRemark},
		{"visit", func(i int) string { return fmt.Sprintf("%02d/%02d/2024", 1+i%12, 1+i%11) },
			"kind: date, lower: TODO, upper: TODO, format: TODO, resolution: day, source: TODO # the format is " +
				"DD/MM/YYYY or MM/DD/YYYY: the cells do not tell which; " + dateRemark[len(" # "):]},
		{"visit", func(i int) string { return fmt.Sprintf("%d.%d.2024", 1+i%28, 1+i%12) },
			"kind: date, lower: TODO, upper: TODO, format: D.M.YYYY, resolution: day, source: TODO" + dateRemark},
		{"seen", func(i int) string { return fmt.Sprintf("2024-01-%02d 08:%02d", 1+i%28, i%60) }, "kind: datetime, " +
			`lower: TODO, upper: TODO, format: "YYYY-MM-DD hh:mm", resolution: hour, source: TODO` + dateRemark},
		{"seen", func(i int) string { return fmt.Sprintf("2015-03-01T12:%02d:00Z", i%60) }, "kind: datetime, " +
			`lower: TODO, upper: TODO, format: "YYYY-MM-DDThh:mm:ssZ", resolution: hour, source: TODO` + dateRemark},
		{"seen", of("2015-03-01T12:00:00+00:00", "2015-03-01 12:00:00.25Z", "2015-03-02"), "kind: datetime, " +
			`lower: TODO, upper: TODO, format: "YYYY-MM-DDThh:mm:ss", resolution: hour, source: TODO` + dateRemark +
			"; generated times are written in this format, without zone and parts of seconds"},
		{"seen", of("2015-03-01T12:00:00+01:00", "2015-07-01T12:00:00Z"), "kind: datetime, lower: TODO, upper: TODO, " +
			"format: TODO, resolution: hour, source: TODO # some times have a zone other than UTC, which cannot be " +
			"read: write all in UTC or without a zone, then the format; " + dateRemark[len(" # "):]},
		{"visit", func(i int) string { return fmt.Sprintf("%02d.%02d.20", 1+i%28, 1+i%12) },
			"kind: date, lower: TODO, upper: TODO, format: TODO, resolution: day, source: TODO # the cells have " +
				"two-digit years: write four digits, then the format with YYYY; " + dateRemark[len(" # "):]},
		{"visit", of("1/2/20 08:15", "12/31/99 8:15"), "kind: date, lower: TODO, upper: TODO, format: TODO, " +
			"resolution: day, source: TODO # the cells have two-digit years: write four digits, then the format with " +
			"YYYY; " + dateRemark[len(" # "):]},
		{"birthdate", of("1970-02-03"), "kind: date, lower: 1880-01-01, upper: 2030-12-31, format: YYYY-MM-DD, " +
			`resolution: day, source: built-in, doc: "limits of persons alive after 2005, oldest documented age ` +
			`122 years: ` +
			`Robine JM, Allard M. The oldest human. Science 1998;279:1834-5"`},
		{"diagnosis", of("I20.1", "J45", "Z99.-"), "kind: code, prefixes: [A, B, C, D, E, F, G, H, I, J, K, L, M, " +
			"\"N\", " +
			"O, P, Q, R, S, T, U, V, W, X, \"Y\", Z], source: built-in, doc: \"by first letter\" # finer prefixes " +
			"keep more; a list of codes in the dictionary (codes) gives them"},
		{"bed", of("A01", "A02", "B01"), "kind: categorical, categories: [A01, A02, B01], source: rows" + rowsRemark},
		{"drug", of("C07AB07", "A10BA02"), "kind: code, prefixes: [A, B, C, D, G, H, J, L, M, \"N\", P, R, S, V], " +
			"source: built-in, doc: \"by first letter\" # finer prefixes keep more; a list of codes in the " +
			"dictionary " +
			"(codes) gives them"},
		{"patient_id", func(i int) string { return fmt.Sprintf("P-%05d", i/2) }, "kind: identifier" + unitRemark},
		{"sample", func(i int) string { return fmt.Sprintf("S%05d", i) }, "kind: identifier" + unitRemark},
		{"serial", func(i int) string { return fmt.Sprint(900000 + i) }, "kind: identifier" + unitRemark},
		{"type_id", func(i int) string { return fmt.Sprint(i % 8) }, "kind: integer, " + bounds + wholeRemark},
		{"plz", func(i int) string { return fmt.Sprintf("0%d", 1000+i%2) },
			`kind: categorical, categories: ["01000", "01001"], source: rows` + rowsRemark},
		{"remarks", func(i int) string { return fmt.Sprintf("patient feels well since %d days", i) },
			"ignored: free text"},
		{"surname", func(i int) string { return "Name" + strings.Repeat("a", i%80) }, "ignored: free text"},
		{"unused", of(""), "ignored: no cell has a value"},
		{"cost", of(`"1,234.50"`, "90.00"), "kind: continuous, " + bounds + numberRemark +
			"; write the numbers without thousands separators"},
	} {
		_, columns := proposed(t, rows(test.name, 100, test.cell), "")
		testkit.Same(t, test.name, test.want, columns[test.name])
	}
}

// Only categories that many rows have are taken from the rows.
func TestRareValuesDoNotShow(t *testing.T) {
	_, columns := proposed(t, rows("ward", 4000, func(i int) string {
		switch {
		case i < 39:
			return "secret"
		case i < 79:
			return "small"
		}
		return "large"
	}), "")
	testkit.Same(t, "ward", "kind: categorical, categories: [large, small], source: rows"+rowsRemark+
		"; add rarer values from public knowledge, or runs will refuse their rows", columns["ward"])
	_, columns = proposed(t, rows("ward", 200, func(i int) string { return fmt.Sprint("w", i%20) }), "")
	testkit.Same(t, "many wards", "kind: categorical, categories: TODO, source: TODO # list all values that a cell "+
		"may "+
		"have, from public knowledge", columns["ward"])
}

// Numbers of the rows never reach a proposal: a table with other numbers in every cell has the same proposal.
func TestNumbersOfTheRowsDoNotShow(t *testing.T) {
	table := func(seed uint64) string {
		r := rand.New(rand.NewPCG(seed, 1))
		text := "age,creatinine_mg_dl,income,visits,admitted\n"
		for range 200 {
			text += fmt.Sprintf("%d,%.2f,%d.5,%d,%02d.%02d.%d\n", 20+r.IntN(70), 0.3+r.Float64(), r.IntN(1e6),
				2+r.IntN(90),
				13+r.IntN(15), 1+r.IntN(12), 1990+r.IntN(30))
		}
		return text
	}
	one, _ := proposed(t, table(1), "")
	for seed := range uint64(5) {
		other, _ := proposed(t, table(2+seed), "")
		testkit.Same(t, "proposal", string(one.YAML()), string(other.YAML()))
	}
}

// The table of a hospital needs only its dictionary.
func TestHospital(t *testing.T) {
	table := string(partitiontest.Hospital(3000))
	p, columns := proposed(t, table, partitiontest.HospitalDictionary)
	testkit.Same(t, "dialect", CSV{Encoding: "latin1", Delimiter: ";", Decimal: ","}, p.CSV)
	testkit.Same(t, "ignored", []Ignored{{"befund", "free text"}, {"hausarzt", "free text"}}, p.Ignored)
	testkit.Same(t, "columns", partitiontest.HospitalColumns, len(p.Columns)+len(p.Ignored))
	if p.Unfinished() > 0 || len(p.FromRows()) > 0 {
		t.Errorf("%d columns are not finished, and %q are from the rows", p.Unfinished(), p.FromRows())
	}
	testkit.Same(t, "clinics", `kind: categorical, categories: [Nord, Süd, Ost, West], source: dictionary, doc: clinic`,
		columns["klinik"])
	testkit.Same(t, "height", `kind: integer, lower: 20, upper: 280, source: built-in, doc: "cm; NHANES 2017-2018, `+
		`Body `+
		`Measures (BMX_J); tallest documented person 272 cm (R. Wadlow, Guinness World Records)"`, columns["größe_cm"])
	kinds := map[string]int{}
	for i := range p.Columns {
		kinds[p.Columns[i].Kind]++
	}
	testkit.Same(t, "kinds", map[string]int{kindIdentifier: 2, kindDate: 2, kindDatetime: 1, kindCategorical: 5,
		kindCode: 3, kindBinary: 1, kindInteger: 16, kindContinuous: 11}, kinds)

	p, columns = proposed(t, table, "")
	testkit.Same(t, "not finished without a dictionary", 6, p.Unfinished())
	testkit.Same(t, "from the rows without a dictionary", []string{"klinik", "aufnahmeart", "station"}, p.FromRows())
	testkit.Same(t, "a rare category", `kind: categorical, categories: [Einweisung, Notfall, Verlegung], source: rows`+
		rowsRemark+"; add rarer values from public knowledge, or runs will refuse their rows", columns["aufnahmeart"])
}

// The proposed schema reads the hospital's table.
func TestHospitalIsRead(t *testing.T) {
	table := string(partitiontest.Hospital(300))
	p, _ := proposed(t, table, partitiontest.HospitalDictionary)
	s, err := partition.ParseSchema(p.YAML())
	if err != nil && regexp.MustCompile(`unknown field "(csv|ignore)"`).MatchString(err.Error()) {
		t.Skip("schemas have no csv and ignore yet")
	}
	testkit.Must(t, err)
	read, err := tabular.ReadCSV(s, write(t, "stays.csv", table), tabular.Options{})
	testkit.Must(t, err)
	testkit.Same(t, "rows", 300, read.Len())
}

// A proposal is read back with the same meaning, and accepts its rows.
func TestProposalsAreSchemas(t *testing.T) {
	table := rows("the age: [a] \"b\" #,smoker,größe_cm", 30, func(i int) string {
		return fmt.Sprintf("%d,%s,%d", 30+i, []string{"yes", "no"}[i%2], 170+i)
	})
	table = strings.Replace(table, `the age: [a] "b" #`, `"the age: [a] ""b"" #"`, 1)
	p, _ := proposed(t, table, "name,type,lower,upper,categories,description\n"+
		`"the age: [a] ""b"" #",integer,0,120.5,,"a # in ""it"": yes"`+"\nother,,,,1|no|~|null|a b,\n")
	testkit.Must(t, p.SetLabel("smoker"))
	s, err := partition.ParseSchema(p.YAML())
	testkit.Must(t, err)
	c := s.Columns[0]
	if c.Name != `the age: [a] "b" #` || c.Lower != 0 || c.Upper != 121 || c.Doc != `a # in "it": yes` ||
		c.Source != partition.SourceDictionary || s.Label != "smoker" ||
		s.Columns[2].Source != partition.SourceBuiltIn {
		t.Errorf("the schema is %+v", s)
	}
	testkit.Same(t, "categories", []string{"1", "no", "~", "null", "a b"}, s.Columns[3].Categories)

	p, _ = proposed(t, rows("age,income", 30, func(i int) string { return fmt.Sprintf("%d,%d", i, 7*i) }), "")
	_, err = partition.ParseSchema(p.YAML())
	if err == nil || !strings.Contains(err.Error(), "there is still TODO in income (lower, source, upper); write") {
		t.Errorf("a schema with TODO is read with %v", err)
	}
}

func TestLabels(t *testing.T) {
	p, _ := proposed(t, rows("patient_id,gap,remark", 100, func(i int) string {
		return fmt.Sprintf("P%04d,%s,this is what was said on day %d", i, strings.Repeat("1", i%2), i)
	}), "")
	for name, want := range map[string]string{
		"":           "",
		"other":      "",
		"nothing":    "not a column of the file",
		"gap":        "has empty cells",
		"remark":     "stays at the site",
		"patient_id": "is an identifier",
	} {
		err := p.SetLabel(name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("label %q: %v", name, err)
		}
	}
	file := write(t, "table.csv", rows("class", 90, func(i int) string { return fmt.Sprint(i % 3) }))
	p, err := Propose(Options{Files: []string{file}, Label: "class"})
	testkit.Must(t, err)
	testkit.Same(t, "a label of few numbers", []string{"0", "1", "2"}, p.Columns[0].Categories)
}

func TestAnswers(t *testing.T) {
	todo := partition.Todo
	number := Column{Kind: kindInteger, Lower: todo, Upper: todo, Source: partition.Source(todo), Hint: "write bounds"}
	for _, bad := range []string{"ten", "nan"} {
		if number.Set("lower", bad) == nil {
			t.Errorf("%q is taken as a bound", bad)
		}
	}
	testkit.Must(t, number.Set("lower", " "))
	testkit.Same(t, "nothing is answered", []string{"lower", "upper"}, number.Unfinished())
	testkit.Must(t, number.Set("lower", "-1.5"))
	if number.Set("upper", "-2") == nil {
		t.Error("bounds fall")
	}
	testkit.Must(t, number.Set("upper", "9"))
	testkit.Same(t, "a number", Column{Kind: kindInteger, Lower: "-2", Upper: "9"}, number)

	day := Column{Kind: kindDate, Lower: todo, Upper: todo, Format: todo}
	testkit.Must(t, day.Set("lower", "2015-01-01"))
	for field, bad := range map[string]string{"upper": "2014-12-31", "lower": "1.1.2015", "format": "tt.mm.jjjj"} {
		if day.Set(field, bad) == nil {
			t.Errorf("%q is taken as %s", bad, field)
		}
	}
	testkit.Must(t, day.Set("upper", "2016-12-31"))
	testkit.Must(t, day.Set("format", "DD.MM.YYYY"))
	testkit.Same(t, "a day", Column{Kind: kindDate, Lower: "2015-01-01", Upper: "2016-12-31", Format: "DD.MM.YYYY"},
		day)

	words := Column{Kind: kindCategorical}
	if words.Set("categories", "a||b") == nil || words.Set("categories", "a|a") == nil {
		t.Error("empty and equal categories are taken")
	}
	testkit.Must(t, words.Set("categories", "a | b"))
	testkit.Same(t, "categories", []string{"a", "b"}, words.Categories)
}

// Prefixes of codes come from a public list, as many as the budget allows.
func TestPrefixes(t *testing.T) {
	folder := t.TempDir()
	list := "code,title\nI20.0,a\nI20.1,b\nI21,c\nJ45,d\n"
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "icd.csv"), []byte(list), 0o600))
	dictionary := filepath.Join(folder, "dictionary.csv")
	testkit.Must(t, os.WriteFile(dictionary, []byte("name,type,codes\ndiagnosis,code,icd.csv\n"), 0o600))
	o := Options{Files: []string{write(t, "t.csv", rows("diagnosis", 30, func(int) string { return "I20.1" }))},
		Dictionary: dictionary, Folder: folder}
	for _, test := range []struct {
		rows    int
		epsilon float64
		want    string
	}{
		{0, 0, "[I20.0, I20.1, I21, J]"},
		{20000, 1, "[I20.0, I20.1, I21, J]"},
		{300, 1, "[I, J]"},
	} {
		o.Rows, o.Epsilon = test.rows, test.epsilon
		p, err := Propose(o)
		testkit.Must(t, err)
		testkit.Same(t, "code", "name: diagnosis, kind: code, prefixes: "+test.want+", codes: icd.csv, source: "+
			"dictionary",
			p.Columns[0].fields())
	}
	o.Rows, o.Epsilon = 100, 0.1
	if _, err := Propose(o); err == nil || !strings.Contains(err.Error(), "even the first characters of the codes "+
		"give more than the 1 prefixes") {
		t.Errorf("a small budget: %v", err)
	}
	testkit.Same(t, "by the formula", 172, MostPrefixes(100_000, 36, 1))
}

var anyCell = regexp.MustCompile(`secret[0-9]*`)

// Errors about the rows contain no cell.
func TestErrorsHoldNoCell(t *testing.T) {
	for text, want := range map[string]string{
		"":      "table.csv: the file is empty; it needs a header line with the column names, and rows",
		"a,b\n": "table.csv: there is a header but no row; check that the whole file was copied",
		"a,b\n1,2\nsecret1\n": "table.csv, row 2 (line 3): the row does not have the 2 cells of the header; " +
			"complete or " +
			"quote " +
			"the row's cells",
		"a,b\n1,\"secret2\n": "table.csv, row 1 (line 2): broken quotes; put a cell with quotes, delimiters or " +
			"breaks in " +
			`"..." and double those in it`,
		"a,\n1,secret3\n": "table.csv, line 1: column 2 of the header has no name; give it one, or remove the column",
		"secret4,secret4\n1,2\n": "table.csv, line 1: column 2 of the header has the name of an earlier one; " +
			"rename one",
		"secret5,17.5\nsecret6,18\n": "table.csv, line 1: column 2 of the header is a number or a date, not a name; " +
			"start the file with a line of column names",
		"%PDF-1.4\nsecret8\n": "table.csv: this is a PDF file; open it where it was made, and export the table as " +
			"CSV, " +
			"Parquet or .xlsx",
		"a,b\rsecret9,1\r": "table.csv, line 1: the lines end with CR only, as on old Macintoshes; save the file " +
			"with " +
			"line ends LF or CRLF",
		"sep=;\na;b\nsecret;1\n": "table.csv, line 1: the first line is for Excel (sep=), not a header; remove that " +
			"line; the delimiter is detected from the header",
		"a\x00,b\nsecret,1\n": "table.csv: there are control characters, so this is not a text file; " +
			"write " +
			"the table as CSV, Parquet or .xlsx, and check that it is the right file",
		"Report\na,b\nsecret,1\n": "table.csv, row 1 (line 2): the row has more cells than the header; if the first " +
			"line is a title, remove the lines above the column names",
		"Report,,\na,b,c\nsecret,1,2\n": "table.csv, line 1: only one column of 3 has a name; if the first line is a " +
			"title, remove the lines above the column names",
		"PAR1secret7\n":       "table.csv: a damaged Parquet file; copy or write it again",
		"ü,b\n\xfcsecret,é\n": "table.csv: some cells are UTF-8 and others are not; save the file in one encoding",
	} {
		path := write(t, "table.csv", text)
		_, err := Propose(Options{Files: []string{path}})
		if err == nil || strings.TrimPrefix(err.Error(), filepath.Dir(path)+"/") != want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
		if err != nil && anyCell.MatchString(err.Error()) {
			t.Errorf("%v", err)
		}
	}
}

// Several files of one table are read as one; files of other tables are refused.
func TestSeveralFiles(t *testing.T) {
	north := write(t, "north.csv", rows("ward", 15, func(int) string { return "a" }))
	south := write(t, "south.csv", rows("ward", 15, func(int) string { return "a" }))
	p, err := Propose(Options{Files: []string{north, south}})
	testkit.Must(t, err)
	testkit.Same(t, "categories that are frequent together", []string{"a"}, p.Columns[0].Categories)
	other := write(t, "other.csv", "ward;other\na;1\n")
	if _, err := Propose(Options{Files: []string{north, other}}); err == nil ||
		!strings.Contains(err.Error(), "the header is not that of") {
		t.Errorf("a file of another table: %v", err)
	}
}

// The same rows as CSV, as parts of it, as Parquet and in a workbook give the same proposal.
func TestForms(t *testing.T) {
	s := partitiontest.Schema(t, `columns:
  - {name: age, kind: integer, lower: 0, upper: 120}
  - {name: dose, kind: continuous, lower: 0, upper: 10, nullable: true}
  - {name: ward, kind: categorical, categories: [north, south]}
  - {name: day, kind: date, lower: 2020-01-01, upper: 2024-12-31}
`)
	table := partition.NewTable(s)
	for i := range 60 {
		table.Push([]float64{float64(20 + i), float64(i) / 8, float64(i % 2), float64(i)}, "")
	}
	dir := t.TempDir()
	save := func(name, form string) string {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		f, err := os.Create(path)
		testkit.Must(t, err)
		defer f.Close()
		testkit.Must(t, tabular.Write(f, form, table, nil))
		return path
	}
	csv := save("t.csv", tabular.CSV)
	parts := filepath.Dir(save("t/part-1.csv", tabular.CSV))
	save("t/part-2.csv", tabular.CSV)
	var want string
	for _, path := range []string{csv, parts, save("t.parquet", tabular.Parquet)} {
		p, err := Propose(Options{Files: []string{path}})
		testkit.Must(t, err)
		if got := string(p.YAML()); want == "" {
			want = got
		} else {
			testkit.Same(t, path, want, got)
		}
	}
	if !strings.Contains(want, "{name: day, kind: date") || !strings.Contains(want, "{name: age, kind: integer") {
		t.Errorf("the proposal is\n%s", want)
	}
	book, err := filepath.Abs("../../partition/xlsx/testdata/visits.xlsx")
	testkit.Must(t, err)
	p, err := Propose(Options{Files: []string{book}})
	testkit.Must(t, err)
	if len(p.Columns)+len(p.Ignored) != 8 {
		t.Errorf("of the workbook %d columns and %d left out", len(p.Columns), len(p.Ignored))
	}
}
