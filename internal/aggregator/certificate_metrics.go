package aggregator

import "github.com/prometheus/client_golang/prometheus"

var (
	acceptingDesc = prometheus.NewDesc("conclave_tls_accepting_state", "1 while the own certificate, which must not be revoked, and the list of revoked ones are in order; at 0 nobody new is let in, and the log says why.", nil, nil)
	ownEndDesc    = prometheus.NewDesc("conclave_certificate_end_seconds", "When the own certificate ends, in seconds since 1970.", nil, nil)
)

// certificateCollector shows how the server's certificate files stand at a scrape, also of
// a standby.
type certificateCollector struct{ server *Server }

func (c *certificateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- acceptingDesc
	ch <- ownEndDesc
}

func (c *certificateCollector) Collect(ch chan<- prometheus.Metric) {
	if c.server.standings == nil { // nothing was opened
		return
	}
	accepting := 1.0
	if c.server.standings.guard.Look() != nil {
		accepting = 0
	}
	ch <- prometheus.MustNewConstMetric(acceptingDesc, prometheus.GaugeValue, accepting)
	if until := c.server.standings.guard.Until(); !until.IsZero() {
		ch <- prometheus.MustNewConstMetric(ownEndDesc, prometheus.GaugeValue, float64(until.Unix()))
	}
}
