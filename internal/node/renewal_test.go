package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// When its certificate expires, a stream is reopened with the new one on disk, which may appear after the expiry.
func TestANodeComesBackWithARenewedCertificate(t *testing.T) {
	f := newFakeAggregator(t)
	t.Parallel()
	ended := status.Error(codes.Unauthenticated, "the peer's certificate is no longer valid")
	certstest.Reissue(t, f.folder, certs.RoleNode, "north", nil, 15*time.Second) // long enough on a busy machine
	issued := time.Now()
	_, log := run(t, start(t, f.config(2), questiontest.SmallTable(t, 40, 1)))
	f.next().leave <- ended // for example, revoked; the one on disk is valid
	again := f.next()
	time.Sleep(time.Until(issued.Add(16 * time.Second))) // it expires
	again.leave <- ended
	testkit.Eventually(t, "a log that says what the node waits for", func() bool {
		for _, line := range log.FilterMessageSnippet("not connected").All() {
			if strings.Contains(fmt.Sprint(line.ContextMap()["error"]), "issue a new one") {
				return true
			}
		}
		return false
	})
	certstest.Reissue(t, f.folder, certs.RoleNode, "north", nil, time.Hour)
	f.next()
}

// A node that starts with an expired certificate does not wait.
func TestANodeDoesNotBeginWithACertificateThatEnded(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	c.TLS = certs.IssuedFiles(certstest.Aged(t), certs.RoleNode, "old")
	if err := start(t, c, questiontest.SmallTable(t, 40, 1)).Run(t.Context()); !errors.Is(err, certs.ErrExpired) {
		t.Errorf("Run ended with %v", err)
	}
}
