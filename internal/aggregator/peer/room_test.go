package peer

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestRoomIsBoundedByStudent(t *testing.T) {
	u := NewRoom(100)
	testkit.Must(t, u.Take("a", 60))
	testkit.Must(t, u.Take("b", 100))
	err := u.Take("a", 41)
	if fault.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "student a") ||
		!strings.Contains(err.Error(), "100 bytes") {
		t.Errorf("%v", err)
	}
	testkit.Must(t, u.Take("a", 40))
	u.Give("a", 100)
	u.Give("b", 100)
	if len(u.byStudent) != 0 {
		t.Errorf("left: %v", u.byStudent)
	}
}
