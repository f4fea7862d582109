package audit

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// relay is between real nodes and the aggregator, and has the keys of both. It forwards everything. An adversary
// stores what nodes send, which is all that an aggregator gets from them.
type relay struct {
	rpc.UnimplementedTeacherServiceServer
	server   *grpc.Server
	served   chan struct{}
	listener net.Listener
	sites    map[string]*grpc.ClientConn

	mu     sync.Mutex
	hearer map[string]*adversary // by dataset
}

// newRelay makes a relay that forwards over connections of sites.
func newRelay(files certs.Files, sites map[string]*grpc.ClientConn) (*relay, error) {
	tlsConfig, err := tlsconfig.Server(files)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for real nodes: %w", err)
	}
	r := &relay{
		server:   grpc.NewServer(append(transport.Options(), grpc.Creds(credentials.NewTLS(tlsConfig)))...),
		listener: listener, sites: sites, served: make(chan struct{}), hearer: map[string]*adversary{},
	}
	rpc.RegisterTeacherServiceServer(r.server, r)
	go func() {
		defer close(r.served)
		_ = r.server.Serve(listener) // until close; otherwise nodes would report that they find no server
	}()
	return r, nil
}

func (r *relay) close() {
	if r != nil {
		r.server.Stop()
		<-r.served
	}
}

func (r *relay) address() string { return r.listener.Addr().String() }

// tell makes an adversary hear what the nodes of a dataset send.
func (r *relay) tell(dataset string, a *adversary) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hearer[dataset] = a
}

// Work implements [rpc.TeacherServiceServer].
func (r *relay) Work(node grpc.BidiStreamingServer[conclavev1.WorkRequest, conclavev1.WorkResponse]) error {
	first, err := node.Recv()
	if err != nil {
		return err
	}
	site := first.GetHello().GetSite()
	r.mu.Lock()
	conn, a := r.sites[site], r.hearer[first.GetHello().GetDataset()]
	r.mu.Unlock()
	if conn == nil || a == nil {
		return status.Errorf(codes.FailedPrecondition, "site %q is not part of this audit", site)
	}
	aggregator, err := rpc.NewTeacherServiceClient(conn).Work(node.Context())
	if err != nil {
		return err
	}
	go func() {
		var err error
		for m := first; err == nil; m, err = node.Recv() {
			a.hear(site, m)
			if aggregator.Send(m) != nil {
				return // the reason is reported below
			}
		}
		_ = aggregator.CloseSend()
	}()
	for {
		m, err := aggregator.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := node.Send(m); err != nil {
			return err
		}
	}
}
