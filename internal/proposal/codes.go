package proposal

import (
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/conclave-dp/conclave/internal/pattern"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/codes"
)

// The forms of codes. ICD-10 has a letter, two digits (or a letter in national editions) and up to four further
// characters; ATC has seven characters in full.
var (
	icd10   = pattern.Of(`^[A-Z][0-9][0-9AB](\.?[0-9A-Z]{1,4}|\.-)?[+*!]?$`)
	atc     = pattern.Of(`^[ABCDGHJLMNPRSV][0-9]{2}[A-Z]{2}[0-9]{2}$`)
	icdName = pattern.Of(`(?i)icd|diag|(^|_)dx`)
)

// The first letters of both are public: the chapters of ICD-10 and the main groups of ATC.
var (
	icdChapters = strings.Split("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "")
	atcGroups   = strings.Split("ABCDGHJLMNPRSV", "")
)

// manyCodes is the number of different values from which cells count as codes although they have only the form
// of a short ICD-10 code. Names of beds have that form too.
const manyCodes = 20

// codesOf returns the public prefixes of a column's codes; nil if the cells are not codes. sure is false if the
// cells may be something else, such as beds and samples.
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
	// cellDeviations is the desired mean number of records per prefix, in standard deviations of the noise.
	cellDeviations = 10
	// countsShare is the share of its squared budget that the pipeline marginals spends on counts of columns.
	countsShare = 0.3
)

// MostPrefixes is the largest useful number of prefixes of a column of codes: each should have about 10
// standard deviations of the noise of a count. All columns are counted at once, by the Gaussian mechanism with
// the constant of Dwork and Roth (2014, theorem A.1) at delta = 1/(10 rows):
//
//	deviation = sqrt(columns / 0.3) sqrt(2 ln(12.5 rows)) / epsilon
//	most      = rows / (10 deviation)
//
// The result is at least 1. If rows or epsilon are 0, which means unknown, it is 30.
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
		return nil, wrong(fmt.Sprintf("even the first characters of the codes give more than the %d prefixes that "+
			"the budget allows", most), "give a larger --rows and --epsilon, or leave out both", nil)
	}
	return prefixes, nil
}
