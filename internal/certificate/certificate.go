package certificate

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
)

// The two kinds of guarantee.
const (
	DataIndependent = "data-independent"
	DataDependent   = "data-dependent"
)

// VotesCoin marks a baseline run whose votes were coin flips.
const VotesCoin = "coin"

// ErrCertificate means that a certificate is malformed.
var ErrCertificate = errors.New("not a valid certificate")

// SpentNote explains the epsilon that was spent. It accompanies every such figure.
const SpentNote = "epsilon spent is computed after the run, from what was released: the smallest of several proven " +
	"bounds. Before the run only the budget is guaranteed, because answers may influence what a run asks and when it " +
	"stops."

// Certificate states the guarantee of a release: (Epsilon, Delta). EpsilonSpent, never more than Epsilon, is
// the cost of the ledger's events at Delta; see SpentNote, which ends the file, and MaskedNote for a masked
// run.
type Certificate struct {
	Run string `json:"run"`
	// Earlier are the runs of the same dataset that this one followed: its rows also depend on their releases.
	// Then (Epsilon, Delta) is the dataset's budget, and EpsilonSpent the total by the rule of its filter.
	Earlier      []string `json:"earlier,omitempty"`
	SchemaSHA256 string   `json:"schema_sha256"`
	Pipeline     string   `json:"pipeline"`
	Privacy
	LedgerHead string `json:"ledger_head"` // hash of the last ledger entry; the run was closed there or before
	// ManifestSHA256 is the SHA-256 of the list of all released files, which is next to this file.
	ManifestSHA256 string `json:"manifest_sha256"`
	Rows           int    `json:"rows"`    // synthetic rows released
	Created        string `json:"created"` // the day; see [ledger.FormatDay]
	Software       string `json:"software"`
	Asked
}

// Asked says which student asked which sites.
type Asked struct {
	Student string `json:"student"` // the student that opened the run
	Purpose string `json:"purpose,omitempty"`
	// Study is the study of the run, nil for none.
	Study *study.Block `json:"study,omitempty"`
	// Roster are the sites that were asked first; empty if nothing was asked.
	Roster   []ledger.Site `json:"roster"`
	Teachers int           `json:"teachers"` // planned for the run
	// TeachersLeast is the number of teachers in the round with the fewest, if not all of them took part in every
	// round.
	TeachersLeast int    `json:"teachers_least,omitempty"`
	Votes         string `json:"votes,omitempty"` // VotesCoin for a baseline
	// Notes are sentences that a reader should know: the meaning of the guarantee, and its unusual properties.
	Notes []string `json:"notes,omitempty"`
}

// Privacy is the guarantee that a certificate states, and the values that it was computed from.
type Privacy struct {
	Epsilon      float64 `json:"epsilon"`
	Delta        float64 `json:"delta"`
	EpsilonSpent float64 `json:"epsilon_spent"`
	Guarantee    string  `json:"guarantee"`    // DataIndependent or DataDependent
	Neighbouring string  `json:"neighbouring"` // the difference of neighbouring datasets
	Unit         string  `json:"unit"`         // "record" or the unit column's name
	// Overlap is the number of sites at which one unit may be, 2 or more; 0 if it is at one.
	Overlap int `json:"overlap,omitempty"`
	// ColumnsFromRows have bounds or categories that the schema takes from the rows: no guarantee covers these.
	ColumnsFromRows []string    `json:"columns_from_rows,omitempty"`
	Accountant      string      `json:"accountant"`
	Mechanisms      []Mechanism `json:"mechanisms"`
	Masked          *Masked     `json:"masked,omitempty"` // nil if the aggregator saw the sums of single sites
}

// Mechanism is a noisy release, and how often it was used. Parameters are
// named as in the ledger's events.
type Mechanism struct {
	Kind       privacy.Kind       `json:"kind"`
	Parameters map[string]float64 `json:"parameters"`
	Count      int64              `json:"count"`
}

// Facts are the contents of a certificate other than the figures of the ledger.
type Facts struct {
	Run       string
	Guarantee string
	Rows      int
	// TeachersLeast is the number of teachers in the round with the fewest.
	TeachersLeast int
	// ColumnsFromRows are the schema's; see [partition.Schema.ColumnsFromRows].
	ColumnsFromRows []string
	// Manifest is the SHA-256 of the list of the released files, in hex.
	Manifest string
	Created  time.Time
	Software string // name and version
	// Notes are sentences other than that of [Certificate.Telling].
	Notes []string
}

// New makes a certificate from the facts of a run and its verified ledger. It fails if the ledger does not
// contain the run or has not closed it, and if a fact is missing or impossible.
func New(f Facts, ledger ledger.Verification) (Certificate, error) {
	total, err := covered(ledger, f.Run)
	if err != nil {
		return Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	c := Certificate{
		Run:          f.Run,
		Earlier:      total.Facts.Earlier,
		SchemaSHA256: total.Facts.SchemaSHA256,
		Pipeline:     total.Facts.Pipeline,
		Privacy: Privacy{
			Epsilon:      total.Budget.Epsilon,
			Delta:        total.Budget.Delta,
			EpsilonSpent: total.Price.Epsilon,
			Guarantee:    f.Guarantee,
			Neighbouring: ledger.Neighbouring,
			Unit:         ledger.Unit,
			Overlap:      ledger.Budget.Overlap,
			Accountant:   total.Price.Accountant,
			Mechanisms:   Mechanisms(total.Events),
			Masked:       maskedOf(total.Masked),

			ColumnsFromRows: f.ColumnsFromRows,
		},
		LedgerHead:     ledger.Head,
		ManifestSHA256: f.Manifest,
		Rows:           f.Rows,
		Created:        f.Created.UTC().Format(time.DateOnly),
		Software:       f.Software,
		Asked:          askedOf(total),
	}
	if f.TeachersLeast != c.Teachers {
		c.TeachersLeast = f.TeachersLeast
	}
	telling, err := c.Telling()
	if err != nil {
		return Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	c.Notes = append([]string{telling}, c.outside()...)
	c.Notes = append(c.Notes, f.Notes...)
	if err := c.Validate(); err != nil {
		return Certificate{}, err
	}
	if err := c.KnownPipeline(); err != nil {
		return Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return c, nil
}

// askedOf reads from the ledger which student asked which sites.
func askedOf(total ledger.RunTotal) Asked {
	f := total.Facts
	a := Asked{Student: f.Student, Purpose: f.Purpose, Study: f.Study, Roster: total.Roster,
		Teachers: int(f.Teachers)}
	if f.Coin {
		a.Votes = VotesCoin
	}
	return a
}

// KnownPipeline refuses a certificate of a pipeline that this program lacks, since it cannot describe the releases. The
// proof by the ledger does not depend on it.
func (c Certificate) KnownPipeline() error {
	if names := pipelines.Names(nil); !slices.Contains(names, c.Pipeline) {
		return fmt.Errorf("pipeline %q is unknown; this program has %s; use the program that made the run",
			c.Pipeline, strings.Join(names, ", "))
	}
	return nil
}

// Mechanisms lists events by mechanism, with equal ones added up, in the order of their first use. The count of
// a confident query is the number asked; the number answered, which costs more, is among its parameters.
func Mechanisms(events []privacy.Event) []Mechanism {
	merged := privacy.Merge(events)
	list := make([]Mechanism, 0, len(merged))
	for _, e := range merged {
		m := Mechanism{Kind: e.Kind, Parameters: map[string]float64{}, Count: e.Count}
		if e.Kind == privacy.ConfidentGNMax {
			m.Count = e.Asked
			m.Parameters["threshold"] = e.Threshold
			m.Parameters["answered"] = float64(e.Answered)
		}
		for name, value := range map[string]float64{
			"sigma": e.Sigma, "sensitivity": e.Sensitivity, "sigma1": e.Sigma1, "sigma2": e.Sigma2,
			"lambda": e.Lambda, "epsilon": e.Epsilon, "rate": e.Rate, "noise_multiplier": e.NoiseMultiplier,
		} {
			if value != 0 {
				m.Parameters[name] = value
			}
		}
		list = append(list, m)
	}
	return list
}

// Validate refuses a certificate with a missing or impossible field, or with more spent than guaranteed.
func (c Certificate) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrCertificate}, args...)...)
	}
	for _, f := range []struct{ name, value string }{
		{"run", c.Run}, {"pipeline", c.Pipeline}, {"neighbouring", c.Neighbouring},
		{"unit", c.Unit}, {"software", c.Software}, {"student", c.Student},
	} {
		if f.value == "" {
			return fail("%s is missing", f.name)
		}
	}
	if err := c.Study.Validate(); err != nil {
		return fail("%w", err)
	}
	for i, earlier := range c.Earlier {
		if earlier == "" || earlier == c.Run || slices.Contains(c.Earlier[:i], earlier) {
			return fail("earlier run %d is %q: it must be another run, listed once", i+1, earlier)
		}
	}
	if config.CheckName(c.Pipeline) != nil {
		return fail("pipeline is %q: it must be a name of small letters, digits, dots and hyphens", c.Pipeline)
	}
	for _, f := range []struct{ name, value string }{
		{"schema_sha256", c.SchemaSHA256}, {"ledger_head", c.LedgerHead}, {"manifest_sha256", c.ManifestSHA256},
	} {
		if raw, err := hex.DecodeString(f.value); err != nil || len(raw) != 32 {
			return fail("%s is not a SHA-256 of 64 hexadecimal digits", f.name)
		}
	}
	if c.Guarantee != DataIndependent && c.Guarantee != DataDependent {
		return fail("guarantee is %q: it must be %q or %q", c.Guarantee, DataIndependent, DataDependent)
	}
	if c.Votes != "" && c.Votes != VotesCoin {
		return fail("votes is %q: it must be absent or %q", c.Votes, VotesCoin)
	}
	if _, err := time.Parse(time.DateOnly, c.Created); err != nil {
		return fail("created is %q: it must be a day like 2006-01-02", c.Created)
	}
	if !(c.Epsilon > 0) || math.IsInf(c.Epsilon, 0) {
		return fail("epsilon is %v: it must be positive and finite", c.Epsilon)
	}
	if !(c.Delta > 0 && c.Delta < 1) {
		return fail("delta is %v: it must lie between 0 and 1", c.Delta)
	}
	if !(c.EpsilonSpent >= 0) || math.IsInf(c.EpsilonSpent, 0) {
		return fail("epsilon_spent is %v: it must be finite and not negative", c.EpsilonSpent)
	}
	if c.EpsilonSpent > c.Epsilon {
		return fmt.Errorf("%w: %w: epsilon_spent %v, epsilon %v", ErrCertificate, ErrOverspent, c.EpsilonSpent,
			c.Epsilon)
	}
	if c.Accountant == "" && len(c.Mechanisms) > 0 {
		return fail("accountant is missing")
	}
	if c.Rows < 1 || c.Teachers < 1 {
		return fail("%d rows by %d teachers: there must be at least 1 of each", c.Rows, c.Teachers)
	}
	if c.TeachersLeast < 0 || c.TeachersLeast >= c.Teachers {
		return fail("teachers_least is %d of %d teachers: it must be absent, or at least 1 and below the number of "+
			"teachers", c.TeachersLeast,
			c.Teachers)
	}
	if err := checkNotes(c.Notes); err != nil {
		return fail("%w", err)
	}
	if err := checkColumns(c.ColumnsFromRows); err != nil {
		return fail("columns_from_rows: %w", err)
	}
	if err := c.Masked.validate(); err != nil {
		return fail("masked: %w", err)
	}
	for i, m := range c.Mechanisms {
		if m.Kind == "" || m.Parameters == nil || m.Count <= 0 {
			return fail("mechanism %d of kind %q has count %d: kind, parameters and count are required", i+1, m.Kind,
				m.Count)
		}
		for name, value := range m.Parameters {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				return fail("mechanism %d: %s is %v", i+1, name, value)
			}
		}
	}
	return nil
}

// String names the mechanism with its parameters in alphabetical order.
func (m Mechanism) String() string {
	names := make([]string, 0, len(m.Parameters))
	for name := range m.Parameters {
		names = append(names, name)
	}
	sort.Strings(names)
	var b strings.Builder
	fmt.Fprintf(&b, "%s(", m.Kind)
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%v", name, m.Parameters[name])
	}
	fmt.Fprintf(&b, ") x %d", m.Count)
	return b.String()
}
