package sitepolicy

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func heart() *study.Block {
	return &study.Block{Name: "heart", Title: "Heart failure", Purpose: "Teaching", Permit: "IRB 7",
		Contact: "Dr. Berg", Expires: "2027-06-30", SHA256: digest("study")}
}

// allowingBesides is a policy with more fields in its dataset.
func allowingBesides(fields string) string {
	return strings.Replace(allowing, "approval: automatic}", "approval: automatic, "+fields+"}", 1)
}

func day(text string) time.Time { return testkit.Value(time.Parse(time.DateTime, text)) }

func (s site) at(moment string) *Enforcer {
	e := s.enforcer()
	e.ledger.now = func() time.Time { return day(moment) }
	return e
}

func TestRunsOfAnotherStudyAreRefused(t *testing.T) {
	const before, after = "2027-06-30 23:59:59", "2027-07-01 00:00:00"
	wanted := allowingBesides("study: {sha256: " + digest("study") + "}")
	ending := allowingBesides("study: {sha256: " + digest("study") + ", expires: 2027-03-31}")
	any := allowing
	other := heart()
	other.SHA256 = digest("another study")
	for name, c := range map[string]struct {
		policy, at string
		of         *study.Block
		says       string // empty if it is allowed
	}{
		"it":                 {wanted, before, heart(), ""},
		"after its last day": {wanted, after, heart(), "2027-06-30 was the last day of study heart ("},
		"none":               {wanted, before, nil, "must belong to the study with SHA-256 " + digest("study")},
		"another": {wanted, before, other, "must belong to the study with SHA-256 " +
			digest("study")},
		"before the site's own end": {ending, "2027-03-31 23:59:59", heart(), ""},
		"after the site's own end":  {ending, "2027-04-01 00:00:00", heart(), "took part until 2027-03-31"},
		"any":                       {any, before, other, ""},
		"none where any may be":     {any, after, nil, ""},
		"any, after its last day":   {any, after, other, "2027-06-30 was the last day"},
	} {
		r := round("r", 0, 10)
		r.Spec.Study = c.of
		s := newSite(t)
		s.write(c.policy)
		e := s.at(c.at)
		if c.says == "" {
			if err := e.Ask(r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		for _, ask := range []func(Request) error{e.Ask, func(r Request) error { _, err := e.Charge(r); return err }} {
			refusal := refusedBy(t, ask(r), RuleStudy)
			if refusal.Waiting || !strings.Contains(refusal.Leaving(), c.says) {
				t.Errorf("%s: %q; waiting %v", name, refusal.Leaving(), refusal.Waiting)
			}
		}
		if status := testkit.Value(e.Status()); status.EpsilonSpent != 0 {
			t.Errorf("%s: it was charged", name)
		}
	}
}

// A study that ended in the middle of a run stays ended if the clock is set back.
func TestAStudyThatHasEndedStaysEnded(t *testing.T) {
	s := newSite(t)
	s.write(allowingBesides("study: {sha256: " + digest("study") + "}"))
	r := round("r", 0, 10)
	r.Spec.Study = heart()
	_, err := s.at("2027-06-30 12:00:00").Charge(r)
	testkit.Must(t, err)
	r.Round, r.Question = 1, digest("next")
	testkit.Must(t, s.at("2027-06-30 13:00:00").Ask(r))
	// Any entry in the ledger proves that its time has passed.
	testkit.Must(t, s.at("2027-07-02 00:00:00").AcceptLedger(LedgerHead{Seq: 9, Hash: digest("restored")},
		Decision{By: "ann"}))
	_, err = s.at("2027-06-30 14:00:00").Charge(r)
	refusedBy(t, err, RuleStudy)
	if brief := testkit.Value(s.at("2027-06-30 14:00:00").Brief("r", "")); brief.State != StateRefused ||
		brief.Spec.Study.Permit != "IRB 7" || brief.Charges != 1 {
		t.Errorf("the run is %+v", brief.Run)
	}
}

// No approval lets a run begin whose study the policy does not allow.
func TestNoApprovalOverridesTheStudy(t *testing.T) {
	s := newSite(t)
	s.write(strings.Replace(allowing, "approval: automatic", "approval: by-hand", 1))
	r := round("r", 0, 10)
	r.Spec.Study = heart()
	refusedBy(t, s.at("2027-01-01 00:00:00").Ask(r), RuleApproval)
	testkit.Value(s.at("2027-01-01 00:00:00").Decide("r", "", Decision{Approve: true, By: "ann"}))
	testkit.Must(t, s.at("2027-01-01 00:00:01").Ask(r))
	_, err := s.at("2027-07-01 00:00:00").Charge(r)
	refusedBy(t, err, RuleStudy)
}

func TestCategoriesWithTooFewUnits(t *testing.T) {
	s := newSite(t)
	s.write(allowingBesides("least_records_by: [{column: label, least: 10}, {column: ward, least: 5}]"))
	counted := func(by map[string]map[string]int) func(*Options) {
		return func(o *Options) {
			o.Facts.UnitsBy = func(column string) (map[string]int, error) { return by[column], nil }
		}
	}
	enough := map[string]map[string]int{"label": {"0": 10, "1": 990}, "ward": {"a": 5}}
	testkit.Must(t, s.enforcer(counted(enough)).Enough())
	testkit.Must(t, s.enforcer(counted(enough)).Ask(round("r", 0, 10)))
	few := s.enforcer(counted(map[string]map[string]int{"label": {"0": 9, "1": 991}, "ward": {"a": 5}}))
	for _, err := range []error{few.Enough(), few.Ask(round("r", 0, 10))} {
		refusal := refusedBy(t, err, RuleBy)
		if leaving := refusal.Leaving(); strings.ContainsAny(leaving, "0123456789") ||
			strings.Contains(leaving, "label") || strings.Contains(leaving, "least_records_by") {
			t.Errorf("%q leaves", leaving)
		}
		if !strings.Contains(refusal.Error(), `(least_records_by): column "label" has "0" with 9 privacy units`) {
			t.Errorf("the site reads %q", refusal)
		}
	}
	testkit.Must(t, s.enforcer().Enough()) // the records were not read
}

// An approval in advance for a study lets only that study's runs begin.
func TestRunsOfAStudyAreApprovedInAdvance(t *testing.T) {
	s := newSite(t)
	s.write(strings.Replace(allowing, "approval: automatic", "approval: by-hand", 1))
	e := s.at("2027-01-01 00:00:00")
	advance := Advance{Student: "lab", Pipelines: []string{"pategan"}, Study: "heart", Epsilon: 1}
	decide := func() error {
		_, err := e.Decide("heart-runs", "", Decision{Approve: true, By: "ann", Advance: &advance,
			Until: day("2027-12-31 00:00:00")})
		return err
	}
	if err := decide(); err == nil || !strings.Contains(err.Error(), "study: ") {
		t.Errorf("a study without a hash: %v", err)
	}
	advance.Study = digest("study")
	testkit.Must(t, decide())
	other := heart()
	other.SHA256 = digest("another study")
	for name, of := range map[string]*study.Block{"its": heart(), "another's": other, "of none": nil} {
		r := byLab(strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", "-"), 0, 50, 20)
		r.Spec.Study = of
		if err := e.Ask(r); name == "its" {
			testkit.Must(t, err)
		} else {
			refusedBy(t, err, RuleApproval)
		}
	}
	r := byLab("later", 0, 50, 20)
	r.Spec.Study = heart()
	_, err := s.at("2027-07-01 00:00:00").Charge(r)
	refusedBy(t, err, RuleStudy)
}
