package proposal

import (
	"strings"

	"github.com/conclave-dp/conclave/internal/pattern"
)

const (
	// with fewer cells, identifiers and free text cannot be distinguished from categories.
	fewCells = 20
	// severalIDs is the smallest number of different values of a column that is named like an identifier of
	// persons or cases.
	severalIDs = 50
	// wideNumber is the number of digits from which numbers of equal width are identifiers.
	wideNumber = 6
	// longText is the mean length of free text in bytes.
	longText = 30
)

var (
	// idNames are names of identifiers of persons and cases, which several rows may share; in the form of key.
	idNames = pattern.Of(`^(mrn|pid|pat|patid|patnr|patient(en)?(id|nr|no|number|nummer|key)?|(subject|` +
		`person|proband|member|case|fall|encounter|visit|admission|aufnahme|stay|hadm|icustay|versicherten|kv)` +
		`(id|nr|no|number|nummer)|ssn|nhsnumber)$`)
	// idEnding matches the end of other names of identifiers.
	idEnding = pattern.Of(`(^|[^A-Za-z0-9])(?i:id|ids|uuid|guid|nr|key)$|[a-z](ID|Id|Nr|UUID)$`)
)

// kind returns the kind of a column, and a remark about it. The dictionary takes precedence over the cells, if
// these can be read in that way.
func (p *profile) kind(e entry) (kind, remark string) {
	if e.personal {
		return freeText, "personal (SDV metadata)"
	}
	strange := p.notNumbers(e)
	if e.numeric() {
		e.kind = kindContinuous
		if p.cells > 0 && p.integral+strange == p.cells {
			e.kind = kindInteger
		}
	}
	if strange > 0 {
		return e.kind, "the dictionary says numbers, but some cells are not numbers: correct the cells or the " +
			"dictionary"
	}
	kind = p.cellKind()
	if kind == "" {
		if e.kind == "" || e.kind == freeText {
			return freeText, "no cell has a value"
		}
		return e.kind, ""
	}
	switch {
	case e.codes != "":
		return kindCode, ""
	case len(e.categories) > 0 && !(e.kind == kindBinary && kind == kindBinary):
		return kindCategorical, ""
	case e.kind == kindBinary && kind != kindBinary:
		return kindCategorical, "" // words other than 0 and 1
	case e.kind == kindInteger && kind == kindContinuous && p.integral < p.cells:
		return kindContinuous, "the dictionary says whole numbers, but some cells have decimals"
	case e.kind == freeText:
		return freeText, "free text, by the dictionary"
	case e.kind != "":
		return e.kind, ""
	}
	return kind, p.why(kind)
}

// notNumbers is the number of cells that are not numbers, if the dictionary has a type or bounds of numbers.
func (p *profile) notNumbers(e entry) int {
	numbers := e.kind == kindInteger || e.kind == kindContinuous || e.numeric()
	if !numbers || e.personal || len(e.categories) > 0 || e.codes != "" {
		return 0
	}
	strange := p.cells - p.whole - p.point - p.comma
	if len(p.formats) == 0 && p.others.short < p.cells {
		strange -= p.grouped // 01.02.2024 looks like a grouped number
	}
	return strange
}

// why is a remark about a kind that was inferred from the cells only.
func (p *profile) why(kind string) string {
	switch {
	case kind == freeText:
		return "free text"
	case p.grouped > 0 && (kind == kindContinuous || kind == kindInteger):
		return "write the numbers without thousands separators"
	}
	return ""
}

// cellKind is the kind inferred from the cells; empty if no cell has a value.
func (p *profile) cellKind() string {
	known, common := builtIn(p.name)
	switch {
	case p.cells == 0:
		return ""
	case len(p.formats) > 0:
		if dateFormats[p.formats[0]].time {
			return kindDatetime
		}
		return kindDate
	case p.others.times(p.cells):
		return kindDatetime
	case p.others.short == p.cells:
		return kindDate
	case p.numbers() && p.leadingZero == 0:
		return p.numberKind(common && len(known.variable.Units) > 0, common && known.variable.Categories != nil)
	case p.grouped > 0 && p.whole+p.point+p.comma+p.grouped == p.cells:
		return kindContinuous
	case common && known.variable.Categories != nil:
		return kindCategorical
	}
	prefixes, sure := p.codesOf()
	switch {
	case prefixes != nil && (sure || !p.isIdentifier()):
		return kindCode
	case p.isIdentifier():
		return kindIdentifier
	case p.isText():
		return freeText
	}
	return kindCategorical
}

// numberKind is the kind of a column of numbers; measured and classes follow from its name.
func (p *profile) numberKind(measured, classes bool) string {
	switch {
	case p.zeroOne == p.cells && !measured:
		return kindBinary
	case classes:
		return kindCategorical
	case p.integral < p.cells:
		return kindContinuous
	case !measured && p.isIdentifier():
		return kindIdentifier
	}
	return kindInteger
}

// isIdentifier decides by the name if that is clear. Otherwise the cells must all be different and have the
// form of a key.
func (p *profile) isIdentifier() bool {
	switch {
	case idNames.MatchString(strings.ReplaceAll(key(p.name), "_", "")):
		return len(p.values) >= severalIDs || p.distinct()
	case idEnding.MatchString(p.name):
		return p.mostlyDistinct()
	case !p.distinct() || p.cells < fewCells || p.spaced > 0:
		return false
	case p.whole == p.cells:
		return p.width >= wideNumber
	}
	return p.digits == p.cells && p.point+p.comma == 0
}

// isText distinguishes free text, and names of persons and places, from categories.
func (p *profile) isText() bool {
	if p.cells < fewCells || !p.mostlyDistinct() {
		return false
	}
	return p.length > longText*p.cells || 3*p.spaced > p.cells || 2*p.digits < p.cells
}
