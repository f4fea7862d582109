package transport

import (
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
)

// noMetrics counts nothing.
type noMetrics struct{}

func (noMetrics) Refused(string, int)      {}
func (noMetrics) Suppressed()              {}
func (noMetrics) Cut(string, int)          {}
func (noMetrics) Begin(string) func(error) { return func(error) {} }

// A day has no more lines than the documentation says.
func TestLinesAboutRefusalsAreFew(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := newRefusals(noMetrics{}, peer.AuditLog{})
	r.now = func() time.Time { return now }
	const reason = tlsconfig.RefusedExpired
	lines, suppressed, knocks := 0, uint64(0), 0
	for end := now.Add(24 * time.Hour); now.Before(end); now = now.Add(500 * time.Millisecond) {
		knocks++
		if n, ok := r.take(reason); ok {
			lines++
			suppressed += n
		}
	}
	if most := refusalBurst + 24*60; lines > most || lines < most-1 {
		t.Errorf("%d lines a day, want %d", lines, most)
	}
	if rest := r.limits[reason].suppressed; lines+int(suppressed+rest) != knocks {
		t.Errorf("%d lines, %d left out and %d not said yet, of %d", lines, suppressed, rest, knocks)
	}
}
