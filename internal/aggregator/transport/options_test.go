package transport

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/dial"
)

// Nodes and students ping less often than the server allows, with room for delayed pings that arrive together.
// test/attacks checks what the server allows.
func TestBothSidesAgreeOnPings(t *testing.T) {
	if dial.PingEvery < 2*minPeerPing {
		t.Errorf("clients ping every %v and the server wants %v between two pings", dial.PingEvery, minPeerPing)
	}
	if pingEvery < dial.PingEvery/2 {
		t.Errorf("the server pings every %v, clients every %v", pingEvery, dial.PingEvery)
	}
}
