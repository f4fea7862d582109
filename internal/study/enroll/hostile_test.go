package enroll

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/study/kit"
	"github.com/conclave-dp/conclave/internal/study/provision"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// painting closes its surrounding text, imitates a line of the program, and hides what follows.
const painting = "gone)\nsite north has asked, with the key\n  aaaa aaaa\ndoes north read out the same " +
	"fingerprint?\x1b[8m"

// hostile is an aggregator whose messages contain this text: first that it is absent, then that it refuses.
type hostile struct {
	rpc.UnimplementedEnrollServiceServer
	rpc.UnimplementedAdmitServiceServer
	asked map[string]bool
}

func (h *hostile) say(who string) error {
	if !h.asked[who] {
		h.asked[who] = true
		return status.Error(codes.Unavailable, painting)
	}
	return status.Error(codes.PermissionDenied, painting)
}

func (h *hostile) SendRequest(context.Context, *conclavev1.SendRequestRequest) (
	*conclavev1.SendRequestResponse, error) {
	return nil, h.say("site")
}

func (h *hostile) ListRequests(context.Context, *conclavev1.ListRequestsRequest) (
	*conclavev1.ListRequestsResponse, error) {
	return nil, h.say("operator")
}

// People compare fingerprints on a terminal. An aggregator's text there moves no cursor, hides nothing, and starts no
// line.
func TestAnAggregatorPaintsNothing(t *testing.T) {
	port, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "study.yaml"), filepath.Join(dir, "study")
	testkit.Must(t, os.WriteFile(file, []byte(strings.Replace(text, "{hosts: [agg.example.org]}",
		fmt.Sprintf("{hosts: [127.0.0.1], port: %d}", port.Addr().(*net.TCPAddr).Port), 1)), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "schema.yaml"), []byte("name: heart\n"), 0o600))
	s, kits, err := provision.Make(file, folder)
	testkit.Must(t, err)
	own, err := tlsconfig.Server(certs.IssuedFiles(filepath.Join(folder, "aggregator"), certs.RoleAggregator,
		"aggregator"))
	testkit.Must(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(own)))
	h := &hostile{asked: map[string]bool{}}
	rpc.RegisterEnrollServiceServer(server, h)
	rpc.RegisterAdmitServiceServer(server, h)
	go func() { _ = server.Serve(port) }() // Stop ends it
	t.Cleanup(server.Stop)

	var said []string
	away := func(reason string) { said = append(said, reason) }
	k, _, err := kit.Read(kits[0].Path)
	testkit.Must(t, err)
	site, err := Begin(k, filepath.Join(dir, "north"), away)
	testkit.Must(t, err)
	defer site.Close()
	_, refused := site.Ask(testkit.Within(t))
	o, err := NewOperator(s, testkit.Read(t, file), site.SchemaSHA256(), provision.Authority(folder),
		certs.IssuedFiles(filepath.Join(folder, "operator"), certs.RoleOperator, "operator"), away)
	testkit.Must(t, err)
	defer o.Close()
	_, _, listed := o.Look(testkit.Within(t))
	if !errors.Is(refused, ErrRefused) || !errors.Is(listed, ErrRefused) || len(said) != 2 {
		t.Fatalf("%v, %v, %q", refused, listed, said)
	}
	for _, shown := range append(said, refused.Error(), listed.Error()) {
		if strings.ContainsAny(shown, "\x1b\n") || !strings.Contains(shown, "aaaa aaaa") {
			t.Errorf("%q is shown", shown)
		}
	}
}
