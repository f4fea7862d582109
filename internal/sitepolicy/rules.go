package sitepolicy

import (
	"fmt"
	"slices"
)

// Facts are what a node knows of its records. They stay at the site.
type Facts struct {
	// Units is the number of privacy units at the node, LeastUnits that of the teacher
	// with the fewest.
	Units, LeastUnits int
}

// permits asks the rules about a run; own is the site.
func (d *Dataset) permits(s Spec, own string) *Refusal {
	return firstOf(d.permitsPipeline(s), d.permitsStages(s), d.permitsMasks(s, own))
}

func (d *Dataset) permitsPipeline(s Spec) *Refusal {
	if slices.Contains(d.Pipelines, s.Pipeline) {
		return nil
	}
	return &Refusal{Rule: RulePipeline, Public: fmt.Sprintf("%q is not allowed on dataset %s", s.Pipeline, d.Name)}
}

func (d *Dataset) permitsStages(s Spec) *Refusal {
	for _, stage := range s.Stages() {
		if !slices.Contains(d.Stages, stage) {
			return &Refusal{Rule: RuleStages, Public: fmt.Sprintf("%q is not allowed on dataset %s", stage, d.Name)}
		}
	}
	return nil
}

// allows asks the rules that do not depend on what was charged or approved; nil where they
// allow the round.
func (d *Dataset) allows(t Request, o Options) *Refusal {
	if refusal := d.permits(t.Spec, o.Site); refusal != nil {
		return refusal
	}
	if !t.Spec.asks(t.Kind, t.Stage) {
		return &Refusal{Rule: RuleQuestion,
			Public: fmt.Sprintf("a round of %s belongs neither to pipeline %q nor to a stage of the run", t.Kind,
				t.Spec.Pipeline)}
	}
	return d.enough(o.Facts)
}

// enough asks for the least numbers of privacy units. A node asks before it joins, so that nobody
// outside learns which rule it was; where the policy is changed later, the refusal does not name it.
func (d *Dataset) enough(f Facts) *Refusal { return firstOf(d.TooFew(f)...) }

// noAnswer is what leaves of a rule about the number of records.
const noAnswer = "the site does not answer; ask its people"

// TooFew are the rules that want more records than there are.
func (d *Dataset) TooFew(f Facts) (broken []*Refusal) {
	if f.Units < d.MinRows {
		broken = append(broken, &Refusal{Rule: RuleRows, Public: noAnswer,
			Private: fmt.Sprintf("%d privacy units, the policy wants %d", f.Units, d.MinRows)})
	}
	if f.LeastUnits < d.MinRowsPerTeacher {
		broken = append(broken, &Refusal{Rule: RulePerHead, Public: noAnswer,
			Private: fmt.Sprintf("a teacher with %d privacy units, the policy wants %d; lower teachers before the "+
				"node joins, or the rule", f.LeastUnits, d.MinRowsPerTeacher)})
	}
	return broken
}
