package aggregator

import (
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const notNoted = "presence of a node not noted"

// A server that stops or was deposed lets its nodes go without a word about
// their presence.
func TestPresenceIsSilentAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *cluster){
		"a stop": func(t *testing.T, c *cluster) { testkit.Must(t, c.stop()) },
		"lost leadership": func(t *testing.T, c *cluster) {
			other,
				err := coordinator.Open(testkit.Within(t), coordinator.Config{Endpoints: c.server.embedded.Endpoints()})
			testkit.Must(t, err)
			defer other.Close()
			lead, err := other.Lead(testkit.Within(t), c.config.Name, testkit.Patience)
			testkit.Must(t, err)
			testkit.Receive(t, c.server.life.Leading().Done())
			testkit.Must(t, lead.Resign(testkit.Within(t)))
			if err := c.ended(); !errors.Is(err, ErrLeadershipLost) {
				t.Errorf("Serve returned %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			core, logged := observer.New(zap.InfoLevel)
			c := newCluster(t, Options{Logger: zap.New(core)})
			d := c.dataset()
			north := c.node(t, hello(d, "north", "a", 4), roundtest.Silent)
			south := c.node(t, hello(d, "south", "a", 4), roundtest.Silent)
			end(t, c)
			testkit.Receive(t, north.ended)
			testkit.Receive(t, south.ended)
			if n := logged.FilterMessage("node left").Len(); n != 2 {
				t.Errorf("%d nodes left", n)
			}
			for _, line := range logged.FilterMessage(notNoted).All() {
				t.Errorf("said %v", line.ContextMap())
			}
		})
	}
}
