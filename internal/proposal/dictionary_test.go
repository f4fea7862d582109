package proposal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

const csvDictionary = "Variable;Type;Min;Max;Values;Label;Unit;Codes\n" +
	"age;integer;0;120;;age at " +
	"visit;years;\nsex;;;;F|M;;;\nicd;code;;;;;;icd10.csv\nseen;date;2015-01-01;2020-12-31;;;;\n"

const sdvMetadata = `{"METADATA_SPEC_VERSION": "V1", "primary_key": "who", "columns": {
	"age": {"sdtype": "numerical", "computer_representation": "Int64"},
	"fare": {"sdtype": "numerical", "computer_representation": "Float"},
	"who": {"sdtype": "id", "regex_format": "P-[0-9]{4}"},
	"stay": {"sdtype": "numerical"},
	"sex": {"sdtype": "categorical"}, "dead": {"sdtype": "boolean"}, "mail": {"sdtype": "email"},
	"seen": {"sdtype": "datetime", "datetime_format": "%d.%m.%Y"},
	"at": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M"}}}`

const frictionless = `{"primaryKey": "who", "fields": [
	{"name": "who", "type": "string"},
	{"name": "age", "type": "integer", "title": "age", "constraints": {"minimum": 0, "maximum": 120, "required": true}},
	{"name": "dose", "type": "number", "description": "of  the\ndrug", "unit": "mg", "constraints": {"minimum": 0.50}},
	{"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}},
	{"name": "grade", "type": "integer", 
		"categories": [{"value": 1, "label": "mild"}, {"value": 2, "label": "severe"}]},
	{"name": "seen", "type": "date", "format": "%d/%m/%Y",
		"constraints": {"minimum": "01/02/2015", "maximum": "2020-12-31"}}
]}`

// The content of dictionaries of each form, by name.
func TestDictionaries(t *testing.T) {
	sdv := map[string]entry{
		"age": {name: "age", kind: kindInteger}, "fare": {name: "fare", kind: kindContinuous},
		"stay": {name: "stay", kind: anyNumber},
		"who":  {name: "who", kind: kindIdentifier}, "sex": {name: "sex", kind: kindCategorical},
		"dead": {name: "dead", kind: kindBinary}, "mail": {name: "mail", kind: freeText},
		"seen": {name: "seen", kind: kindDate, format: "DD.MM.YYYY"},
		"at":   {name: "at", kind: kindDatetime, format: "YYYY-MM-DD hh:mm"},
	}
	fields := map[string]entry{
		"who":  {name: "who", kind: kindIdentifier},
		"age":  {name: "age", kind: kindInteger, lower: "0", upper: "120", doc: "age"},
		"dose": {name: "dose", kind: kindContinuous, lower: "0.50", doc: "of the drug, mg"},
		"sex":  {name: "sex", categories: []string{"F", "M"}},
		"grade": {name: "grade", kind: kindInteger, categories: []string{"1", "2"},
			names: []string{"mild", "severe"}},
		"seen": {name: "seen", kind: kindDate, format: "DD/MM/YYYY", lower: "01/02/2015", upper: "2020-12-31"},
	}
	for text, want := range map[string]map[string]entry{
		csvDictionary: {
			"age":  {name: "age", kind: kindInteger, lower: "0", upper: "120", doc: "age at visit, years"},
			"sex":  {name: "sex", categories: []string{"F", "M"}},
			"icd":  {name: "icd", kind: kindCode, codes: "folder/icd10.csv"},
			"seen": {name: "seen", kind: kindDate, lower: "2015-01-01", upper: "2020-12-31"},
		},
		sdvMetadata:                                         sdv,
		`{"tables": {"a": ` + sdvMetadata + `}}`:            sdv,
		frictionless:                                        fields,
		`{"schema": ` + frictionless + `}`:                  fields,
		`{"resources": [{"schema": ` + frictionless + `}]}`: fields,
	} {
		d, err := parseDictionary([]byte("\ufeff"+text), "folder/dictionary")
		testkit.Must(t, err)
		testkit.Same(t, text, want, d.entries, cmp.AllowUnexported(entry{}))
	}
}

// Errors in a dictionary name the column, if there is one.
func TestBadDictionaries(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "d: the dictionary is empty; it needs a line for each column of the table",
		"a,b\n1,2\n":                     "the first line of the dictionary has no column name",
		"name,type\n":                    "d: the dictionary has no column",
		"name,type\nage,number\nAGE,\n":  `d, column "AGE": the column appears twice`,
		"name,type\nage,big\n":           `line 2: unknown type "big"`,
		"name,lower,upper\na,1,x\n":      `d, column "a": lower and upper must be plain numbers`,
		"name,lower,upper\na,2,1\n":      `d, column "a": lower must be below upper`,
		"name,categories\na,x||y\n":      `d, column "a": the categories have an empty one`,
		"name,type\n,integer\n":          "a column has no name",
		"{":                              "d: not valid JSON",
		"{}":                             "d: neither fields nor columns are in the JSON",
		`{"tables": {"a": {}, "b": {}}}`: "the metadata has several tables",
		`{"resources": [{}, {}]}`:        "the package has several resources",
		`{"fields": [{"name": "a", "type": "geojson"}]}`:              `d, column "a": type "geojson" has no kind`,
		`{"fields": [{"name": "a", "type": "date", "format": "%y"}]}`: `d, column "a": format "%y" is unknown`,
		"name,type\n\xff,integer\n":                                   "d: not a text file in UTF-8",
	} {
		_, err := parseDictionary([]byte(text), "d")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// Cells that contradict a dictionary are reported: if they are most cells, as an error, for all columns at
// once.
func TestDictionariesThatCellsContradict(t *testing.T) {
	table := "seen,at,age,dose\n" + strings.Repeat("03.12.2016,soon,41,1\n", 20) + "24.12.2016,2016-01-01,<18,x\n"
	_, columns := proposed(t, table, `{"fields": [{"name": "seen", "type": "date"}, {"name": "at", "type": "date"},
		{"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}}]}`)
	for column, want := range map[string]string{
		"seen": "kind: date, lower: TODO, upper: TODO, format: DD.MM.YYYY, resolution: day, source: TODO" + dateRemark +
			"; the dictionary says YYYY-MM-DD, and the cells have this format",
		"at": "kind: date, lower: TODO, upper: TODO, format: TODO, resolution: day, source: TODO # the dictionary " +
			"says YYYY-MM-DD, but not all cells have this format: correct the cells or the dictionary; " +
			dateRemark[len(" # "):],
		"age": "kind: integer, lower: 0, upper: 120, source: dictionary # the dictionary says numbers, but some " +
			"cells are not numbers: correct the cells or the dictionary",
	} {
		testkit.Same(t, column, want, columns[column])
	}
	proposed(t, table, `{"columns": {"at": {"sdtype": "numerical", "pii": true}}}`)
	_, columns = proposed(t, table, "name,type,categories\nat,integer,soon|later\n")
	testkit.Same(t, "categories", "kind: categorical, categories: [soon, later], source: dictionary", columns["at"])
	_, err := Propose(Options{Files: []string{write(t, "t.csv", table)}, Dictionary: write(t, "d.csv",
		"name,type,lower,upper\nseen,,0,9\nat,number,,\nage,integer,0,9\n")})
	if err == nil {
		t.Fatal("words are numbers")
	}
	lines := strings.Split(err.Error(), "\n")
	testkit.Same(t, "columns that most cells contradict", 2, len(lines))
	for i, line := range lines {
		want := `d.csv, column "` + []string{"seen", "at"}[min(i, 1)] + `": the dictionary says numbers, but most ` +
			"cells are not numbers; correct type and bounds, or leave them empty"
		if !strings.HasSuffix(line, want) {
			t.Errorf("%s\nwant %s", line, want)
		}
	}
}

// Columns of a dictionary that the table does not have are reported.
func TestColumnsOfTheDictionaryAlone(t *testing.T) {
	p, _ := proposed(t, "Age,sex\n41,F\n", "name,type\nage,integer\nheight,number\nbed,\n")
	testkit.Same(t, "not in the table", []string{"bed", "height"}, p.Unknown)
}

// All wrong columns of a dictionary are reported at once.
func TestAllThatIsWrongWithADictionary(t *testing.T) {
	_, err := parseDictionary([]byte("name,type,lower,upper\nage,integer,90,20\nbp,,0,1\nBP,,0,1\nfoo,zzz,,\n"), "d")
	want := []string{`d, column "age": lower must be below upper; correct the dictionary`, `d, column "BP": the ` +
		`column appears twice; remove or rename one; capitals and separators do not count`,
		`d, column "foo": line 5: unknown ` +
			`type "zzz"; use integer, continuous, categorical, binary, date, datetime, code, identifier or text, or ` +
			`leave ` +
			"it empty; correct the dictionary"}
	if err == nil {
		t.Fatal("it is read")
	}
	testkit.Same(t, "errors", want, strings.Split(err.Error(), "\n"))
}

// A dictionary as German spreadsheets write it.
func TestDecimalCommasOfDictionaries(t *testing.T) {
	d, err := parseDictionary([]byte("Name;Type;Min;Max;Values\ncrea;number;-0,5;12,75;\nsex;;;;F|M\n"), "d")
	testkit.Must(t, err)
	testkit.Same(t, "creatinine", entry{name: "crea", kind: kindContinuous, lower: "-0.5", upper: "12.75"},
		d.entries["crea"], cmp.AllowUnexported(entry{}))
	if _, err := parseDictionary([]byte("name,lower,upper\ncrea,\"0,5\",1\n"), "d"); err == nil ||
		!strings.Contains(err.Error(), "plain numbers") {
		t.Errorf("a decimal comma between commas: %v", err)
	}
}

// A dictionary takes precedence over the cells, unless the cells contradict it.
func TestDictionariesAndCells(t *testing.T) {
	table := "age,grade,dead,dose,seen,remark,score,text\n" + strings.Repeat("41,1,yes,1.5,03/02/2016,mild,0,a\n", 30)
	_, columns := proposed(t, table, frictionless)
	testkit.Same(t, "age", "kind: integer, lower: 0, upper: 120, source: dictionary, doc: age", columns["age"])
	testkit.Same(t, "grade", `kind: categorical, categories: ["1", "2"], names: [mild, severe], source: dictionary`,
		columns["grade"])
	testkit.Same(t, "dose", `kind: continuous, lower: 0.50, upper: TODO, source: TODO, doc: "of the drug, mg"`+
		` # write upper from documentation or knowledge of the field`, columns["dose"])
	testkit.Same(t, "seen", "kind: date, lower: 2015-02-01, upper: 2020-12-31, format: DD/MM/YYYY, resolution: day, "+
		"source: dictionary", columns["seen"])

	_, columns = proposed(t, table, "name,type,lower,upper,pattern\nage,,0,130,\ndead,boolean,,,\nscore,,0,9,\n"+
		"remark,text,,,\ntext,id,,,P-###\ndose,integer,0,9,\n")
	for column, want := range map[string]string{
		"age":    "kind: integer, lower: 0, upper: 130, source: dictionary",
		"dead":   "kind: categorical, categories: [\"yes\"], source: rows" + rowsRemark,
		"score":  "kind: integer, lower: 0, upper: 9, source: dictionary",
		"remark": "ignored: free text, by the dictionary",
		"text":   `kind: identifier, pattern: "P-###"` + unitRemark,
		"dose": "kind: continuous, lower: 0, upper: 9, source: dictionary # the dictionary says whole numbers, but " +
			"some cells have decimals",
	} {
		testkit.Same(t, column, want, columns[column])
	}
}

// SDV's numbers are whole if the cells are whole, and SDV does not say otherwise.
func TestNumbersOfSDV(t *testing.T) {
	_, columns := proposed(t, "whole,half,empty,said\n"+strings.Repeat("1,1.0,,2\n0,0.5,,3\n", 9), `{"columns": {
		"whole": {"sdtype": "numerical"}, "half": {"sdtype": "numerical"}, "empty": {"sdtype": "numerical"},
		"said": {"sdtype": "numerical", "computer_representation": "Float"}}}`)
	for column, want := range map[string]string{"whole": kindInteger, "half": kindContinuous, "empty": kindContinuous,
		"said": kindContinuous} {
		if !strings.HasPrefix(columns[column], "kind: "+want+",") {
			t.Errorf("%s is proposed as %s", column, columns[column])
		}
	}
}

// A description may have line breaks and control characters; what a column is called or how it is read may not.
func TestControlCharactersOfDictionaries(t *testing.T) {
	d, err := parseDictionary([]byte("name,description\ncrea,\"\x01of the\n\x7fdrug,\u0085 mg\x02\"\n"), "d")
	testkit.Must(t, err)
	testkit.Same(t, "description", "of the drug, mg", d.entries["crea"].doc)
	for _, text := range []string{
		"name,type,format\na,date,DD.MM\x01\n", "name,pattern\na,P\u0085##\n",
		"name,codes\na,\"icd\n10.txt\"\n", "name\tunit\n\"a\nb\"\tmg\n",
		`{"fields": [{"name": "a", "categories": [{"value": 1, "label": "mi\nld"}]}]}`,
	} {
		if _, err := parseDictionary([]byte(text), "d"); err == nil ||
			!strings.Contains(err.Error(), "a line break or a control character") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What no schema can have is refused at once, and not when the rest has been filled in.
func TestDictionariesThatNoSchemaCanHave(t *testing.T) {
	long := strings.Repeat("x", partition.MaxSchemaBytes)
	table := "id,seen,size\n" + strings.Repeat("p1,2019-05-06,10\nq7,2019-05-07,11\n", 30)
	for dictionary, want := range map[string]string{
		"name,type,lower,upper\nseen,date,2020-12-31,2019-01-01\n":  `column "seen": upper must be in a later day`,
		"name,type,pattern\nid,id,[\n":                              `column "id": a pattern needs one group`,
		"name,type,lower,upper\nsize,integer,0,1e17\n":              `column "size": the bounds and clip of an integer`,
		"name,type,lower,upper\nsize,number,-1.7e308,1.7e308\n":     `column "size": the difference of lower and upper`,
		"name,description\nsize," + long + "\n":                     "list fewer or shorter categories",
		"name,categories\nsize,10|11|" + long + "\n":                "list fewer or shorter categories",
		"name,lower,upper\nseen,2019-01-01,2020-12-31\n":            "plain numbers, or give the type date",
		"name,type\nsize," + long + "\n":                            "line 2: unknown type",
		"name,type\n" + strings.Repeat("size,integer\n", 50) + "\n": "and 29 more, shown after these are corrected",
	} {
		_, err := Propose(Options{Files: []string{write(t, "table.csv", table)},
			Dictionary: write(t, "dictionary", dictionary)})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 4000 {
			t.Errorf("%.80q: %.2000v", dictionary, err)
		}
	}
	_, err := parseDictionary([]byte(`{"columns": {"a": {"sdtype": "id"}}, "fields": null}`), "d")
	testkit.Must(t, err)
}

func fuzzDictionary(f *testing.F, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseDictionary(text, "d")
		if err != nil {
			return
		}
		for name, e := range d.entries {
			if key(e.name) != name || e.name == "" || !oneLine(e.doc) || e.check() != nil {
				t.Errorf("%q has %+v", name, e)
			}
		}
	})
}

func FuzzCSVDictionary(f *testing.F)          { fuzzDictionary(f, csvDictionary, "name,unit\n0,\x01") }
func FuzzSDVMetadata(f *testing.F)            { fuzzDictionary(f, sdvMetadata) }
func FuzzFrictionlessDictionary(f *testing.F) { fuzzDictionary(f, frictionless) }

// Nothing is written about columns that SDV's metadata calls personal: they stay at the site, except
// identifiers.
func TestPersonalColumns(t *testing.T) {
	var table strings.Builder
	table.WriteString("city,postcode,born,pay,what,none,who\n")
	for i := range 100 {
		table.WriteString([]string{"Secretville", "Hidden"}[i%2] + ",1010,2001-02-03,12,x,,K1\n")
	}
	_, columns := proposed(t, table.String(), `{"columns": {
		"city": {"sdtype": "categorical", "pii": true}, "postcode": {"sdtype": "postcode", "pii": true},
		"born": {"sdtype": "datetime", "pii": true}, "pay": {"sdtype": "numerical", "pii": true},
		"what": {"sdtype": "unknown", "pii": true}, "none": {"sdtype": "categorical", "pii": true},
		"who": {"sdtype": "id", "pii": true}}}`)
	const ignored = "ignored: personal (SDV metadata)"
	testkit.Same(t, "columns", map[string]string{"city": ignored, "postcode": ignored, "born": ignored, "pay": ignored,
		"what": ignored, "none": ignored, "who": "kind: identifier" + unitRemark}, columns)
}
