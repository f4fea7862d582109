package aggregator

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

var (
	leaderDesc = prometheus.NewDesc("conclave_leader_state", "1 while this aggregator leads, else 0.", nil, nil)
	nodesDesc  = prometheus.NewDesc("conclave_connected_nodes", "Nodes connected.", []string{"dataset"}, nil)
	liveDesc   = prometheus.NewDesc("conclave_connected_teachers", "Teachers of the nodes connected.", []string{"dataset"}, nil)
	openDesc   = prometheus.NewDesc("conclave_open_rounds", "Rounds being answered.", []string{"dataset"}, nil)
	limitDesc  = prometheus.NewDesc("conclave_budget_epsilon_limit", "The dataset's epsilon for all runs together, ever.", []string{"dataset"}, nil)
	deltaDesc  = prometheus.NewDesc("conclave_budget_delta_limit", "The dataset's delta.", []string{"dataset"}, nil)
	spentDesc  = prometheus.NewDesc("conclave_budget_epsilon_spent", "What all runs on the dataset have spent together at its delta, from the events in its ledger; at most as tight as a certificate.", []string{"dataset"}, nil)
)

// stateCollector shows how the server stands at a scrape. Of datasets it shows something
// while the server leads.
type stateCollector struct {
	server *Server
	mu     sync.Mutex // one scrape at a time reads what was spent
}

// spentFigure is a dataset's epsilon spent, kept until the next charge.
type spentFigure struct {
	charges atomic.Int64 // what was charged since the start, or tried to

	known   bool // under stateCollector.mu, with the rest
	at      int64
	epsilon float64
}

func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leaderDesc, nodesDesc, liveDesc, openDesc, limitDesc, deltaDesc, spentDesc, queuedDesc} {
		ch <- d
	}
}

func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s := c.server
	if !s.leads() {
		gauge(leaderDesc, 0)
		return
	}
	gauge(leaderDesc, 1)
	for name, d := range s.datasets {
		nodes := d.live()
		teachers := uint32(0)
		for _, n := range nodes {
			teachers += n.teachers
		}
		gauge(nodesDesc, float64(len(nodes)), name)
		gauge(liveDesc, float64(teachers), name)
		gauge(openDesc, float64(d.open.Load()), name)
		s.collectQueue(name, ch)
		gauge(limitDesc, d.record.Budget.Epsilon, name)
		gauge(deltaDesc, d.record.Budget.Delta, name)
		if epsilon, ok := c.spent(d); ok {
			gauge(spentDesc, epsilon, name)
		}
	}
}

// spent is what a dataset has spent. Accounting takes a while, so it is done once for
// each charge that a scrape finds, and not at each charge.
func (c *stateCollector) spent(d *dataset) (float64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &d.spent
	charges := f.charges.Load()
	if f.known && f.at == charges {
		return f.epsilon, true
	}
	ctx, cancel := context.WithTimeout(c.server.leading, readyTimeout)
	defer cancel()
	purse, err := c.server.store.Spent(ctx, d.record.Name)
	if err == nil {
		var epsilon float64
		if epsilon, err = purse.EpsilonSpent(); err == nil {
			f.known, f.at, f.epsilon = true, charges, epsilon
			return epsilon, true
		}
	}
	c.server.log.Warn("what a dataset has spent is missing in the metrics", zap.String("dataset", d.record.Name), zap.Error(err))
	return 0, false
}
