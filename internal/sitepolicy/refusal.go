package sitepolicy

import "fmt"

// Rule names why a round is not answered.
type Rule string

// The rules.
const (
	RuleTerms    Rule = "terms"   // the aggregator's statement of question and price is missing or invalid
	RulePolicy   Rule = "policy"  // the policy file cannot be used
	RuleLedger   Rule = "ledger"  // the site's ledger cannot be used
	RuleDataset  Rule = "dataset" // not in the policy, or not this node's
	RulePipeline Rule = "pipelines"
	RuleStages   Rule = "stages"
	RuleStudy    Rule = "study"    // no study, another one, or it has ended
	RuleQuestion Rule = "question" // of another pipeline or stage than the run's
	RuleRows     Rule = "min_rows"
	RulePerHead  Rule = "min_rows_per_teacher"
	RuleBy       Rule = "least_records_by"
	RuleFilter   Rule = "filter"
	RuleDenied   Rule = "denied"   // by a person
	RuleEnded    Rule = "ended"    // the run is over
	RulePlan     Rule = "plan"     // more than the run's plan has
	RuleBudget   Rule = "budget"   // exceeds the run's budget
	RuleApproval Rule = "approval" // an approval is missing
	RuleEpsilon  Rule = "epsilon"  // the limit would be exceeded

	// For masked runs.
	RuleMasked         Rule = "masked" // the run is not masked
	RuleLeastSites     Rule = "least_sites"
	RuleLeastColluding Rule = "least_colluding"
	RulePeers          Rule = "peers"
	RuleReveals        Rule = "reveals" // more openings of a round than allowed
)

// Refusal is why a round is not answered.
type Refusal struct {
	Site string
	Rule Rule
	// Public is what may leave the site. It depends on the policy, the run and the charges, and contains no number of
	// rows, no path and no system error.
	Public string
	// Private is for the site's own log.
	Private string
	// Waiting says that people at the site may still let the round be answered.
	Waiting bool
}

// Error is for the site only: it may contain numbers of rows and file names.
func (r *Refusal) Error() string {
	text := r.Leaving()
	if r.aboutRecords() {
		text += fmt.Sprintf(" (%s)", r.Rule)
	}
	if r.Private != "" {
		text += ": " + r.Private
	}
	return text
}

// Leaving is the text that is sent.
func (r *Refusal) Leaving() string {
	switch {
	case r.Rule == RuleApproval:
		return r.Public
	case r.aboutRecords():
		return fmt.Sprintf("policy of site %s: %s", r.Site, r.Public)
	}
	return fmt.Sprintf("policy of site %s, %s: %s", r.Site, r.Rule, r.Public)
}

// aboutRecords reports whether the rule is about numbers of records: naming such a rule reveals a bit about them.
func (r *Refusal) aboutRecords() bool {
	return r.Rule == RuleRows || r.Rule == RulePerHead || r.Rule == RuleBy
}
