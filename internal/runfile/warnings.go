package runfile

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/partition"
)

// Protection is the guarantee that the run asks for, with the public number of units.
func (p Privacy) Protection() meaning.Guarantee {
	return meaning.Guarantee{Epsilon: p.Epsilon, Delta: p.Delta, Records: p.Records}
}

// Warnings are sentences about settings of the run that few people want. They depend on the run.yaml and the
// schema alone.
func (s *Spec) Warnings(schema *partition.Schema) []string {
	warnings := append(s.Privacy.Protection().Warnings(), s.UnitWarnings(schema)...)
	if columns := schema.WithoutCodes(); len(columns) > 0 {
		warnings = append(warnings, fmt.Sprintf("The list of codes of %s is not next to the schema: the synthetic "+
			"rows have prefixes in place of codes. Copy the list there to get codes.", strings.Join(columns, ", ")))
	}
	if columns := schema.ColumnsFromRows(); len(columns) > 0 {
		warnings = append(warnings, certificate.OutsideGuarantee(columns))
	}
	if s.Privacy.DeltaChosen {
		warnings = append(warnings, fmt.Sprintf("No delta was given. Delta is %.4g: the smaller of %g and 1/(10 x "+
			"%[3]d), where %[3]d is the public number of records.",
			s.Privacy.Delta, meaning.StrongDelta, s.Privacy.Records))
	}
	if s.PostChosen {
		warnings = append(warnings, fmt.Sprintf("No stages were given. Because of the data the run has %s, which "+
			"costs a part of epsilon. `post: []` leaves that out (docs/%[1]s.md).", strings.Join(s.Post, ", ")))
	}
	return warnings
}

// UnitWarnings are the warnings of [Spec.Warnings] about the privacy unit.
func (s *Spec) UnitWarnings(schema *partition.Schema) []string {
	at := schema.UnitColumn()
	if at < 0 || s.Privacy.Unit != partition.UnitRecord {
		return nil
	}
	name := schema.Columns[at].Name
	return []string{fmt.Sprintf("The schema has a column of role unit, %q, but the run protects single records: for "+
		"a person with k records, epsilon is k times larger. To protect all records of a person together, set "+
		"privacy.unit: %s, or give conclave local --unit %[2]s.",
		name, name)}
}

// SiteNames are the sites that the run.yaml names: the members of a masked run, else those of a local run.
func (s *Spec) SiteNames() (names []string) {
	for _, m := range s.Aggregation.Members {
		names = append(names, m.Site)
	}
	if len(names) > 0 {
		return names
	}
	for _, d := range s.Data {
		names = append(names, d.Site)
	}
	return names
}
