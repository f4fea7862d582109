package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
)

var (
	leaderDesc = prometheus.NewDesc("conclave_leader_state", "1 if this aggregator leads, else 0.", nil, nil)
	nodesDesc  = prometheus.NewDesc("conclave_connected_nodes", "Connected nodes.", []string{"dataset"}, nil)
	liveDesc   = prometheus.NewDesc("conclave_connected_teachers", "Teachers of the connected nodes.",
		[]string{"dataset"}, nil)
	openDesc  = prometheus.NewDesc("conclave_open_rounds", "Rounds in progress.", []string{"dataset"}, nil)
	limitDesc = prometheus.NewDesc("conclave_budget_epsilon_limit",
		"The dataset's total epsilon budget for all runs.", []string{"dataset"}, nil)
	deltaDesc = prometheus.NewDesc("conclave_budget_delta_limit", "The dataset's delta.", []string{"dataset"}, nil)
	spentDesc = prometheus.NewDesc("conclave_budget_epsilon_spent",
		"Total epsilon spent by all runs on the dataset, at its delta, computed from the ledger; a certificate may "+
			"state less.", []string{"dataset"}, nil)
	queuedDesc = prometheus.NewDesc("conclave_queued_runs", "Submitted runs, by state.",
		[]string{"dataset", "state"}, nil)
)

// Dataset is the state of a dataset at a scrape.
type Dataset struct {
	Name            string
	Nodes, Teachers int
	OpenRounds      int
	Epsilon, Delta  float64        // the budget
	Queued          map[string]int // submitted runs by state
	// Spent returns the epsilon spent, false if unknown.
	Spent func() (epsilon float64, ok bool)
}

// ShowState registers a server's state. Datasets are shown only while it leads.
func (m *Metrics) ShowState(now func() (leads bool, datasets []Dataset)) {
	m.Registry.MustRegister(stateCollector(now))
}

type stateCollector func() (leads bool, datasets []Dataset)

// Describe lists what Collect may send.
func (c stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leaderDesc, nodesDesc, liveDesc, openDesc, limitDesc, deltaDesc, spentDesc,
		queuedDesc} {
		ch <- d
	}
}

// Collect sends the current state.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	leads, datasets := c()
	if !leads {
		gauge(leaderDesc, 0)
		return
	}
	gauge(leaderDesc, 1)
	for _, d := range datasets {
		gauge(nodesDesc, float64(d.Nodes), d.Name)
		gauge(liveDesc, float64(d.Teachers), d.Name)
		gauge(openDesc, float64(d.OpenRounds), d.Name)
		gauge(limitDesc, d.Epsilon, d.Name)
		gauge(deltaDesc, d.Delta, d.Name)
		for state, n := range d.Queued {
			gauge(queuedDesc, float64(n), d.Name, state)
		}
		if epsilon, ok := d.Spent(); ok {
			gauge(spentDesc, epsilon, d.Name)
		}
	}
}

// Spent caches a dataset's epsilon spent. Accounting is slow, so a scrape computes it once for each new number of
// charges. The zero value is ready for use.
type Spent struct {
	mu      sync.Mutex // one scrape computes at a time
	known   bool
	at      int64
	epsilon float64
}

// Epsilon is the epsilon spent after a number of charges. It calls account if that number has changed.
func (s *Spent) Epsilon(charges int64, account func() (float64, error)) (float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known && s.at == charges {
		return s.epsilon, nil
	}
	epsilon, err := account()
	if err != nil {
		return 0, err
	}
	s.known, s.at, s.epsilon = true, charges, epsilon
	return epsilon, nil
}

var (
	acceptingDesc = prometheus.NewDesc("conclave_tls_accepting_state",
		"1 if this process's certificate and the list of revoked certificates can be used; at 0 no new peers are "+
			"accepted, and the log says why.", nil, nil)
	ownEndDesc = prometheus.NewDesc("conclave_certificate_end_seconds",
		"Expiry of this process's certificate, in seconds since 1970.", nil, nil)
)

// ShowCertificates registers the state of the certificate files, on standbys, too.
func (m *Metrics) ShowCertificates(c *tlsconfig.Credentials) {
	m.Registry.MustRegister(certificateCollector{c})
}

type certificateCollector struct{ files *tlsconfig.Credentials }

// Describe lists what Collect may send.
func (c certificateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- acceptingDesc
	ch <- ownEndDesc
}

// Collect checks the files.
func (c certificateCollector) Collect(ch chan<- prometheus.Metric) {
	accepting := 1.0
	if c.files.Reload() != nil {
		accepting = 0
	}
	ch <- prometheus.MustNewConstMetric(acceptingDesc, prometheus.GaugeValue, accepting)
	if end := c.files.NotAfter(); !end.IsZero() {
		ch <- prometheus.MustNewConstMetric(ownEndDesc, prometheus.GaugeValue, float64(end.Unix()))
	}
}
