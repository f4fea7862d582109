package node

import (
	"encoding/hex"
	"errors"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// siteEvery is how often rounds that wait for the site's people are looked at again.
const siteEvery = time.Second

// LedgerPath is where a node of the configuration keeps the ledger of its site's policy.
func (c Config) LedgerPath() string {
	return filepath.Join(c.State, "site-ledger-"+c.Dataset+".jsonl")
}

// GuardOptions are those of the guard of a node of the configuration, which has a policy,
// but for what is known of its records only.
func (c Config) GuardOptions(schemaSHA256 string) sitepolicy.Options {
	return sitepolicy.Options{
		Policy: c.Policy, Ledger: c.LedgerPath(), Dataset: c.Dataset, Site: c.Site, Node: c.Node,
		SchemaSHA256: schemaSHA256, Unit: c.Unit,
	}
}

// guarded sets what stands before the node's answers; nothing does without a policy.
func (n *Node) guarded() {
	n.waiting = map[string]waitingRun{}
	if n.cfg.Policy == "" {
		return
	}
	o := n.cfg.GuardOptions(n.site.Schema.SHA256)
	o.Facts = n.facts()
	n.guard = sitepolicy.New(o)
	n.watched.waiting = prometheus.NewGauge(prometheus.GaugeOpts{Name: "conclave_node_waiting_runs", Help: "Runs whose rounds wait for the site: for an approval, or a policy or ledger that can be used."})
	n.watched.registry.MustRegister(n.watched.waiting, policyFigures{n.guard})
}

// policyFigures shows what a site's policy allows and what was charged: both from one look
// at its files.
type policyFigures struct{ guard *sitepolicy.Guard }

var (
	policyLimitDesc = prometheus.NewDesc("conclave_node_policy_epsilon_limit", "The limit of the site's policy for this node, 0 while it cannot be read.", nil, nil)
	policySpentDesc = prometheus.NewDesc("conclave_node_policy_epsilon_spent", "What the node's records have been charged with, at the limit's delta, as its filter counts: nothing is left at the limit.", nil, nil)
)

func (policyFigures) Describe(ch chan<- *prometheus.Desc) {
	ch <- policyLimitDesc
	ch <- policySpentDesc
}

func (p policyFigures) Collect(ch chan<- prometheus.Metric) {
	limit, spent, _ := p.guard.Figures() // what cannot be read is 0
	ch <- prometheus.MustNewConstMetric(policyLimitDesc, prometheus.GaugeValue, limit)
	ch <- prometheus.MustNewConstMetric(policySpentDesc, prometheus.GaugeValue, spent)
}

// facts counts the privacy units, of all teachers and of the one with the fewest.
func (n *Node) facts() sitepolicy.Facts {
	each := make([]int, n.cfg.Teachers)
	for _, records := range n.site.Units {
		each[records[0].Teacher]++
	}
	f := sitepolicy.Facts{Units: len(n.site.Units), LeastUnits: len(n.site.Units)}
	for _, units := range each {
		f.LeastUnits = min(f.LeastUnits, units)
	}
	return f
}

// permit asks the site's policy whether a round may be worked on.
func (n *Node) permit(t task) error {
	if n.guard == nil {
		return nil
	}
	return n.guard.Ask(roundTerms(t))
}

// charge charges the answer to a round before it leaves. It returns the entry that paid,
// of an earlier answer its number and hash alone; nil without a policy.
func (n *Node) charge(t task) (*sitepolicy.Entry, error) {
	if n.guard == nil {
		return nil, nil
	}
	return n.guard.Charge(roundTerms(t))
}

// roundTerms are a round's terms as the site's policy takes them; none, which are refused,
// where the aggregator sent none or those of another run.
func roundTerms(t task) sitepolicy.Terms {
	spec, err := decodeSpec(t.terms.GetSpec())
	if t.terms == nil || t.question == nil || err != nil || spec.GetName() != t.run {
		return sitepolicy.Terms{Run: t.run, Round: t.round}
	}
	terms := sitepolicy.Terms{
		Run: t.run, Round: t.round, SpecSHA256: sha256Hex(t.terms.GetSpec()), Question: hex.EncodeToString(t.terms.GetQuestion()),
		Kind: KindOf(t.question.round),
	}
	if terms.Spec, err = SpecTerms(spec); err != nil {
		return sitepolicy.Terms{Run: t.run, Round: t.round}
	}
	planned, charges, err := priced(terms.Spec.Plan, t.question.round)
	if err != nil {
		return sitepolicy.Terms{Run: t.run, Round: t.round}
	}
	terms.Stage, terms.Charges = planned.Stage, charges
	return terms
}

// refusal is what leaves the site of an error, and whether it may pass.
func (n *Node) refusal(t task, err error) *conclavev1.Refusal {
	out := &conclavev1.Refusal{Run: t.run, Round: t.round, Reason: err.Error()}
	var byPolicy *sitepolicy.Refusal
	if errors.As(err, &byPolicy) {
		out.Reason, out.Waiting = byPolicy.Leaving(), byPolicy.Waiting
		if out.Waiting {
			n.waitingMu.Lock()
			defer n.waitingMu.Unlock()
			n.waiting[t.run] = waitingRun{roundTerms(t), byPolicy.Error()}
			n.showWaiting()
		}
		return out
	}
	for _, known := range []error{question.ErrState, errAudit} {
		if errors.Is(err, known) {
			out.Reason = known.Error() // the names of the site's files stay here
		}
	}
	return out
}

// waitingRun is a run that waits for its site, with what it asked for last and why it waits.
type waitingRun struct {
	terms  sitepolicy.Terms
	reason string
}

// decided returns messages for the runs that waited and need not any more, since somebody
// approved or denied them, or mended what was broken. The aggregator asks again.
func (n *Node) decided() (ready []*conclavev1.WorkRequest) {
	n.waitingMu.Lock()
	defer n.waitingMu.Unlock()
	for run, waits := range n.waiting {
		var refusal *sitepolicy.Refusal
		if err := n.guard.Ask(waits.terms); errors.As(err, &refusal) && refusal.Waiting {
			if reason := refusal.Error(); reason != waits.reason {
				n.waiting[run] = waitingRun{waits.terms, reason}
				n.log.Warn("round waits for this site for another reason", zap.String("run", run), zap.Error(refusal))
			}
			continue
		}
		delete(n.waiting, run)
		n.log.Info("run need not wait any more", zap.String("run", run))
		ready = append(ready, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Ready{Ready: &conclavev1.Ready{Run: run}}})
	}
	if len(ready) > 0 {
		n.showWaiting()
	}
	return ready
}

// forgetWaiting drops a run that has ended: nobody needs to decide about it.
func (n *Node) forgetWaiting(run string) {
	n.waitingMu.Lock()
	defer n.waitingMu.Unlock()
	if _, waits := n.waiting[run]; waits {
		delete(n.waiting, run)
		n.showWaiting()
	}
}

// showWaiting is called with waitingMu held.
func (n *Node) showWaiting() { n.watched.waiting.Set(float64(len(n.waiting))) }

// looksAgain ticks while something may wait; it is nil, and never does, without a policy.
func (n *Node) looksAgain() (tick <-chan time.Time, stop func()) {
	n.waitingMu.Lock()
	defer n.waitingMu.Unlock()
	n.waiting = map[string]waitingRun{} // the aggregator asks a new stream anew
	if n.guard == nil {
		return nil, func() {}
	}
	n.showWaiting()
	ticker := time.NewTicker(siteEvery)
	return ticker.C, ticker.Stop
}
