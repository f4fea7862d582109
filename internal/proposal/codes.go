package proposal

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/codes"
)

// The forms of codes. ICD-10 has a letter, two digits (or a letter in national editions) and up to four further
// characters; ATC has seven characters in full.
var (
	icd10   = regexp.MustCompile(`^[A-Z][0-9][0-9AB](\.?[0-9A-Z]{1,4}|\.-)?[+*!]?$`)
	atc     = regexp.MustCompile(`^[ABCDGHJLMNPRSV][0-9]{2}[A-Z]{2}[0-9]{2}$`)
	icdName = regexp.MustCompile(`(?i)icd|diag|(^|_)dx`)
)

// The first letters of both are public: the chapters of ICD-10 and the main groups of ATC.
var (
	icdChapters = strings.Split("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "")
	atcGroups   = strings.Split("ABCDGHJLMNPRSV", "")
)

// manyCodes is how many different values make codes of cells that only have the form of a short ICD-10 code, as
// beds do.
const manyCodes = 20

// codesOf tells the public prefixes of a column's codes; nil where the cells are none. Not sure are those that other
// things, such as beds and samples, are written like.
func (p *profile) codesOf() (prefixes []string, sure bool) {
	switch {
	case p.cells == 0:
	case p.atc == p.cells:
		return atcGroups, true
	case p.icd == p.cells && (p.dotted > 0 || icdName.MatchString(p.name)):
		return icdChapters, true
	case p.icd == p.cells && len(p.values) >= manyCodes:
		return icdChapters, false
	}
	return nil, false
}

const (
	defaultPrefixes = 30
	// cellDeviations is how many standard deviations of the noise a prefix should have of records on average.
	cellDeviations = 10
	// countsShare is what the pipeline marginals spends on counts of columns, of its squared budget.
	countsShare = 0.3
)

// MostPrefixes is how many prefixes a column of codes should have at most: each should have some 10 standard deviations
// of the noise of a count. All columns are counted at once, by the Gaussian mechanism with the constant of Dwork and
// Roth (2014, theorem A.1) at delta = 1/(10 rows):
//
//	deviation = sqrt(columns / 0.3) sqrt(2 ln(12.5 rows)) / epsilon
//	most      = rows / (10 deviation)
//
// The result is at least 1. Without rows or epsilon, which are 0 then, it is 30.
func MostPrefixes(rows, columns int, epsilon float64) int {
	if rows == 0 || epsilon == 0 {
		return defaultPrefixes
	}
	n := float64(rows)
	deviation := math.Sqrt(float64(columns)/countsShare) * math.Sqrt(2*math.Log(12.5*n)) / epsilon
	return max(1, int(math.Min(n/(cellDeviations*deviation), n)))
}

// prefixesOf chooses prefixes of a public list of codes.
func prefixesOf(path string, most int) ([]string, error) {
	wrong := func(problem, fix string, err error) error {
		return &partition.InputError{File: path, Problem: problem, Fix: fix, Err: err}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, wrong("cannot read the list of codes that the dictionary names",
			"correct its path in the dictionary", partition.WithoutPath(err))
	}
	defer f.Close()
	list, err := codes.Read(f)
	if err != nil {
		return nil, wrong("not a list of codes", "", err)
	}
	prefixes := codes.Choose(list, most)
	if prefixes == nil {
		return nil, wrong(fmt.Sprintf("even the first characters of the codes are more than the %d prefixes that the "+
			"budget has room for", most), "give --rows and --epsilon of a larger run, or leave both out", nil)
	}
	return prefixes, nil
}
