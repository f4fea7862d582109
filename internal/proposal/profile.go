package proposal

import (
	"strings"
	"unicode/utf8"
)

// mostValues bounds the different values of a column that are counted. A column with more has no categories,
// and counts as distinct.
const mostValues = 10_000

// profile is the statistics of a column from one pass. It is as private as the rows.
type profile struct {
	name string

	cells, empty, words int // words of cells without a value, such as NA; cells has the others
	numberCells
	formats []int // dateFormats that all cells so far fit
	others  otherDates
	codeCells

	spaced, digits int // cells with spaces, and with digits
	length         int // of all cells together, in bytes
	width          int // of each cell, -1 if they differ

	values   map[string]int
	many     bool // there are more than mostValues, and values has the first ones
	repeated bool // a value occurred twice while values were counted
}

// numberCells counts the cells that are numbers.
type numberCells struct {
	whole, zeroOne int // with digits only; 0 and 1, in any spelling
	point, comma   int // numbers with decimals behind one
	integral       int // whole numbers, 1.0 among them
	grouped        int // numbers with separators of thousands
	leadingZero    int
}

// codeCells counts the cells that are codes of diseases, those of them with a dot, and codes of drugs.
type codeCells struct{ icd, dotted, atc int }

func newProfile(name string) *profile {
	return &profile{name: name, formats: allFormats(), values: make(map[string]int)}
}

// missingWords mean a cell without a value in many systems.
var missingWords = map[string]bool{"na": true, "n/a": true, "nan": true, "null": true, "none": true, "?": true,
	".": true, "-": true, "k.a.": true, "#n/a": true, "nil": true}

// add adds a cell as it is in the file.
func (p *profile) add(cell string) {
	if cell == "" {
		p.empty++
		return
	}
	if len(cell) <= 4 && missingWords[strings.ToLower(cell)] {
		p.words++
		return
	}
	p.cells++
	p.length += len(cell)
	if p.cells == 1 {
		p.width = len(cell)
	} else if p.width != len(cell) {
		p.width = -1
	}
	if len(p.formats) > 0 {
		p.formats = keepFormats(p.formats, cell)
	}
	p.others.add(cell)
	p.addNumber(cell)
	p.addText(cell)
	p.count(cell)
}

func (p *profile) addNumber(cell string) {
	form, leading := numberForm(cell)
	number := cell
	if form == pointNumber || form == commaNumber {
		number = strings.TrimRight(strings.TrimRight(cell, "0"), ".,") // 1.0 is how some programs write 1
	}
	if form == wholeNumber || (form == pointNumber || form == commaNumber) && !strings.ContainsAny(number, ".,eE") {
		p.integral++
		if number == "0" || number == "1" {
			p.zeroOne++
		}
	}
	switch form {
	case wholeNumber:
		p.whole++
		if leading {
			p.leadingZero++
		}
	case pointNumber:
		p.point++
	case commaNumber:
		p.comma++
	case groupedNumber:
		p.grouped++
	}
}

func (p *profile) addText(cell string) {
	if strings.ContainsAny(cell, "0123456789") {
		p.digits++
	}
	if strings.IndexByte(cell, ' ') >= 0 {
		p.spaced++
	}
	if icd10.MatchString(cell) {
		p.icd++
		if strings.IndexByte(cell, '.') >= 0 {
			p.dotted++
		}
	}
	if atc.MatchString(cell) {
		p.atc++
	}
}

func (p *profile) count(cell string) {
	n, ok := p.values[cell]
	switch {
	case ok:
		p.values[cell] = n + 1
		p.repeated = true
	case len(p.values) < mostValues:
		p.values[strings.Clone(cell)] = 1 // a cell shares the memory of its row
	default:
		p.many = true
	}
}

// numbers tells whether all cells are plain numbers.
func (p *profile) numbers() bool { return p.cells > 0 && p.whole+p.point+p.comma == p.cells }

// distinct tells whether no value occurred twice, among the counted ones.
func (p *profile) distinct() bool { return p.cells > 0 && !p.repeated }

// mostlyDistinct tells whether most cells have a value of their own.
func (p *profile) mostlyDistinct() bool { return p.many || 2*len(p.values) > p.cells }

type form int

const (
	noNumber form = iota
	wholeNumber
	pointNumber
	commaNumber
	groupedNumber
)

// numberForm returns how a number is written; leading tells that it begins with a zero that numbers do not
// need.
func numberForm(cell string) (f form, leading bool) {
	text := strings.TrimLeft(cell, "+-")
	if len(cell)-len(text) > 1 || text == "" || len(text) > 32 {
		return noNumber, false
	}
	digits, points, commas, exponent := 0, 0, 0, -1
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b >= '0' && b <= '9':
			digits++
		case b == '.':
			points++
		case b == ',':
			commas++
		case (b == 'e' || b == 'E') && digits > 0 && exponent < 0:
			exponent = i
			if i+1 < len(text) && (text[i+1] == '-' || text[i+1] == '+') {
				i++
			}
		default:
			return noNumber, false
		}
	}
	leading = len(text) > 1 && text[0] == '0' && points+commas == 0
	switch {
	case digits == 0 || exponent == len(text)-1:
		return noNumber, false
	case points+commas == 0 && exponent < 0:
		return wholeNumber, leading
	case points+commas > 1 && points > 0 && commas > 0 || points > 1 || commas > 1:
		return groupedNumber, false
	case commas == 1:
		return commaNumber, false
	}
	return pointNumber, false
}

// textForm counts what the bytes of cells are, to tell the encoding of a file.
type textForm struct{ beyondASCII, invalid int }

func (f *textForm) add(cell string) {
	for i := 0; i < len(cell); i++ {
		if cell[i] >= utf8.RuneSelf {
			f.beyondASCII++
			if !utf8.ValidString(cell) {
				f.invalid++
			}
			return
		}
	}
}
