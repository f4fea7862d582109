package node

import (
	"encoding/hex"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/node/notify"
	"github.com/conclave-dp/conclave/internal/node/rows"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// siteEvery is how often rounds that wait for the site's people are checked again.
const siteEvery = time.Second

// maxWaitingRuns bounds the remembered waiting runs: while the policy or the ledger is unusable, every run waits,
// whatever its name.
const maxWaitingRuns = 1000

// LedgerPath is the path of the site ledger of a node with this configuration.
func (c Config) LedgerPath() string {
	return filepath.Join(c.State, "site-ledger-"+c.Dataset+".jsonl")
}

// PolicyOptions are the options of the enforcer of a node's policy, except what depends on its records.
func (c Config) PolicyOptions(schemaSHA256 string) sitepolicy.Options {
	return sitepolicy.Options{
		Policy: c.Policy, Ledger: c.LedgerPath(), Dataset: c.Dataset, Site: c.Site, Node: c.Node,
		SchemaSHA256: schemaSHA256, Unit: c.Unit, Overlap: c.Overlap, Authority: c.TLS,
		Teachers: c.Teachers,
	}
}

// Decided logs to the node's audit log that a person at the site decided about a run; by names the person.
func Decided(c Config, run sitepolicy.Run, approve bool, by string) error {
	event := auditlog.Denied
	if approve {
		event = auditlog.Approved
	}
	line := c.decided(event, run.Run, by)
	if run.Spec != nil {
		line.Study = auditlog.StudyOf(run.Spec.Study.Named())
	}
	return auditlog.Append(c.AuditLog, string(certs.RoleNode), c.Site+"/"+c.Node, line)
}

// decided is the log line of a decision.
func (c Config) decided(event, run, by string) auditlog.Entry {
	return auditlog.Entry{Event: event, Dataset: c.Dataset, Run: run, Reason: "by " + by}
}

// policy enforces a site's policy before its node's answers leave. Without a policy its enforcer is nil, and
// everything passes.
type policy struct {
	enforcer *sitepolicy.Enforcer
	// figure shows the number of waiting runs.
	figure prometheus.Gauge
	// notify tells people about runs that wait for approval; nil tells nobody.
	notify *notify.Notifier
	site   rows.Identity

	mu      sync.Mutex
	waiting map[string]waitingRun
	// permitted has the runs that were permitted to the aggregator, with the first request of each.
	permitted map[string]sitepolicy.Request
}

// newPolicy makes the policy of a node with this configuration.
func newPolicy(c Config, s *question.Site, unitsBy func(string) (map[string]int, error), w *watch,
	log *zap.Logger) *policy {
	p := &policy{waiting: map[string]waitingRun{}, permitted: map[string]sitepolicy.Request{}, site: c.Identity,
		notify: notify.New(c.Notify, log)}
	if c.Policy == "" {
		return p
	}
	o := c.PolicyOptions(s.Schema.SHA256)
	o.Facts = facts(s)
	o.Facts.UnitsBy = unitsBy
	o.Expired = func(e sitepolicy.Entry) { _ = w.auditLog.Write(c.decided(auditlog.Expired, e.Run, e.By)) }
	p.enforcer = sitepolicy.New(o)
	p.figure = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "conclave_node_waiting_runs",
		Help: "Runs that wait for the site: for an approval, or for a usable policy or ledger.",
	})
	w.metrics.registry.MustRegister(p.figure, policyFigures{p.enforcer})
	return p
}

// policyFigures shows a policy's limit and the charges, both from one read of its files.
type policyFigures struct{ enforcer *sitepolicy.Enforcer }

var (
	policyLimitDesc = prometheus.NewDesc("conclave_node_policy_epsilon_limit",
		"Epsilon limit of the site's policy for this node; 0 while it cannot be read.", nil, nil)
	policySpentDesc = prometheus.NewDesc("conclave_node_policy_epsilon_spent",
		"Epsilon charged to the node's records, at the limit's delta, as its filter counts; at the limit nothing is "+
			"left.", nil, nil)
)

func (policyFigures) Describe(ch chan<- *prometheus.Desc) {
	ch <- policyLimitDesc
	ch <- policySpentDesc
}

func (p policyFigures) Collect(ch chan<- prometheus.Metric) {
	limit, spent, _ := p.enforcer.Figures() // shown as 0 if unreadable
	ch <- prometheus.MustNewConstMetric(policyLimitDesc, prometheus.GaugeValue, limit)
	ch <- prometheus.MustNewConstMetric(policySpentDesc, prometheus.GaugeValue, spent)
}

// facts counts the privacy units, of all teachers and of the one with the fewest.
func facts(s *question.Site) sitepolicy.Facts {
	return factsOf(s.UnitsOf)
}

func factsOf(units []int) sitepolicy.Facts {
	f := sitepolicy.Facts{LeastUnits: slices.Min(units)}
	for _, n := range units {
		f.Units += n
	}
	return f
}

// permit asks the site's policy whether to work on a round.
func (p *policy) permit(r sitepolicy.Request) error {
	if p.enforcer == nil {
		return nil
	}
	return p.enforcer.Ask(r)
}

// permits records that the aggregator is told that a run may begin, so that it is also told when that ends.
func (p *policy) permits(r sitepolicy.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.enforcer != nil && len(p.permitted) < maxWaitingRuns {
		p.permitted[r.Run] = r
	}
}

// charge charges the answer to a round before it leaves. It returns the entry that paid, only with number and hash
// for an earlier answer; nil without a policy.
func (p *policy) charge(r sitepolicy.Request) (*sitepolicy.Entry, error) {
	if p.enforcer == nil {
		return nil, nil
	}
	return p.enforcer.Charge(r)
}

// request converts a round, or one still to come, for the site's policy. Without a spec, or with another run's, it
// has only the name, which the policy refuses.
func (p *policy) request(t task) sitepolicy.Request {
	none := sitepolicy.Request{Run: t.run, Round: t.round}
	if p.enforcer == nil || t.spec.GetName() != t.run {
		return none
	}
	asks := t.asks()
	if asks == nil {
		return none
	}
	spec, err := SpecTerms(t.spec.RunSpec)
	if err != nil {
		return none
	}
	planned, use, charges, err := priced(spec.Plan, asks.Kind, asks.Planned, asks.Queries)
	if err != nil {
		return none
	}
	if q := t.question; q != nil && runspec.Pays(planned, q.round) != nil {
		return none
	}
	return sitepolicy.Request{
		Run: t.run, Requester: t.spec.requester, Round: t.round, Spec: spec, SpecSHA256: t.spec.sha256,
		Question: hex.EncodeToString(asks.Question), Kind: sitepolicy.Kind(asks.Kind), Stage: planned.Stage,
		Use: use, Charges: charges,
	}
}

// refusal is the part of an error that may leave the site, and whether it may pass.
func (p *policy) refusal(r sitepolicy.Request, err error) *conclavev1.Refusal {
	out := &conclavev1.Refusal{Run: r.Run, Round: r.Round, Reason: err.Error()}
	var byPolicy *sitepolicy.Refusal
	if errors.As(err, &byPolicy) {
		out.Reason, out.Waiting = byPolicy.Leaving(), byPolicy.Waiting
		if out.Waiting {
			p.mu.Lock()
			defer p.mu.Unlock()
			if _, waits := p.waiting[r.Run]; !waits && len(p.waiting) >= maxWaitingRuns {
				out.Waiting = false
				return out
			}
			p.waiting[r.Run] = waitingRun{request: r, reason: byPolicy.Error()}
			p.show()
			if byPolicy.Rule == sitepolicy.RuleApproval {
				p.notify.Tell(notify.Waiting{
					Site: p.site.Site, Node: p.site.Node, Dataset: p.site.Dataset, Run: r.Run,
					SpecSHA256: r.SpecSHA256, Student: r.Requester, Purpose: r.Spec.Purpose,
					Study: r.Spec.Study,
					Since: time.Now().UTC().Format(time.RFC3339),
				}, func() bool { return p.waits(r) })
			}
		}
		return out
	}
	for _, known := range []error{question.ErrState, question.ErrRows, errAudit} {
		if errors.Is(err, known) {
			out.Reason = known.Error() // the names of the site's files stay here
		}
	}
	return out
}

// waits reports whether a run still waits for its site.
func (p *policy) waits(r sitepolicy.Request) bool {
	var refusal *sitepolicy.Refusal
	return errors.As(p.enforcer.Ask(r), &refusal) && refusal.Waiting
}

// waitingRun is a run that waits for its site, with its last request and the reason.
type waitingRun struct {
	request sitepolicy.Request
	reason  string
	// said records whether the aggregator was told that the run waits; only then may it be told that it is ready.
	said bool
}

// said records that a reply is sent.
func (p *policy) said(reply *conclavev1.WorkRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := reply.GetRefusal().GetRun()
	if w, waits := p.waiting[run]; waits {
		w.said = true
		p.waiting[run] = w
	}
}

// ready returns messages for runs whose state changed. A waiting run no longer waits because somebody decided, or
// fixed what was broken. A permitted run is no longer permitted because its approval expired or somebody denied it,
// so that no other site pays for its rounds. The aggregator then asks again.
func (p *policy) ready(log *zap.Logger) (ready []*conclavev1.WorkRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for run, waits := range p.waiting {
		if !waits.said {
			continue
		}
		var refusal *sitepolicy.Refusal
		if err := p.enforcer.Ask(waits.request); errors.As(err, &refusal) && refusal.Waiting {
			if reason := refusal.Error(); reason != waits.reason {
				waits.reason = reason
				p.waiting[run] = waits
				log.Warn("round waits for this site for a new reason", zap.String("run", run), zap.Error(refusal))
			}
			continue
		}
		delete(p.waiting, run)
		p.notify.Forget(run)
		log.Info("run no longer waits", zap.String("run", run))
		ready = append(ready, readyFor(run))
	}
	for run, request := range p.permitted {
		var refusal *sitepolicy.Refusal
		if err := p.enforcer.Ask(request); !errors.As(err, &refusal) ||
			refusal.Rule != sitepolicy.RuleApproval && refusal.Rule != sitepolicy.RuleDenied &&
				refusal.Rule != sitepolicy.RuleStudy {
			continue
		}
		delete(p.permitted, run)
		log.Warn("run is no longer permitted", zap.String("run", run), zap.Error(refusal))
		ready = append(ready, readyFor(run))
	}
	if len(ready) > 0 {
		p.show()
	}
	return ready
}

func readyFor(run string) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Ready{Ready: &conclavev1.Ready{Run: run}}}
}

// end records that runs have ended, which ends their approvals.
func (p *policy) end(runs []string) error {
	if p.enforcer == nil {
		return nil
	}
	return p.enforcer.End(runs...)
}

// forget drops a run that has ended: nobody needs to decide about it.
func (p *policy) forget(run string) {
	p.notify.Forget(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.permitted, run)
	if _, waits := p.waiting[run]; waits {
		delete(p.waiting, run)
		p.show()
	}
}

// show updates the figure. Callers hold mu.
func (p *policy) show() { p.figure.Set(float64(len(p.waiting))) }

// ticks ticks while something may wait; without a policy it is nil, and never ticks.
func (p *policy) ticks() (tick <-chan time.Time, stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting, p.permitted = map[string]waitingRun{},
		map[string]sitepolicy.Request{} // the aggregator asks again on a new stream
	if p.enforcer == nil {
		return nil, func() {}
	}
	p.show()
	ticker := time.NewTicker(siteEvery)
	return ticker.C, ticker.Stop
}
