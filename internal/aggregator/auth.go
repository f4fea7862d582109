package aggregator

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// allowed names the role that may call a service. Health may be called by
// everybody with a certificate.
var allowed = map[string]certs.Role{
	conclavev1.TeacherService_ServiceDesc.ServiceName: certs.RoleNode,
	conclavev1.StudentService_ServiceDesc.ServiceName: certs.RoleStudent,
	conclavev1.RunService_ServiceDesc.ServiceName:     certs.RoleStudent,
}

type identityKey struct{}

// identityOf returns whom the peer's certificate names.
func identityOf(ctx context.Context) certs.Identity {
	id, _ := ctx.Value(identityKey{}).(certs.Identity)
	return id
}

// authorize checks that the peer may call a method and notes who it is.
func authorize(ctx context.Context, method string) (context.Context, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, faultf(codes.Unauthenticated, "the connection has no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, faultf(codes.Unauthenticated, "the connection has no TLS; dial with a client certificate")
	}
	id, err := certs.PeerIdentity(info.State)
	if err != nil {
		return nil, faultf(codes.Unauthenticated, "peer certificate: %w", err)
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	role, known := allowed[service]
	switch {
	case known && id.Role != role:
		return nil, deniedf("%s %q may not call %s; it is for certificates with role %s", id.Role, id.Name, service, role)
	case !known && service != healthpb.Health_ServiceDesc.ServiceName:
		return nil, faultf(codes.Unimplemented, "service %s is not offered here", service)
	}
	return context.WithValue(ctx, identityKey{}, id), nil
}

func (s *Server) authorizeUnary(ctx context.Context, q any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	known, err := authorize(ctx, info.FullMethod)
	if err != nil {
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{Method: info.FullMethod})
		return nil, toStatus(err)
	}
	ctx, st, err := s.standings.enter(known)
	if err != nil {
		return nil, toStatus(err)
	}
	defer st.leave()
	var response any
	if err = st.check(); err == nil {
		response, err = handler(ctx, q)
	}
	if st.check() != nil {
		response = nil
	}
	return response, toStatus(s.ended(ctx, st, info.FullMethod, err))
}

func (s *Server) authorizeStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, err := authorize(stream.Context(), info.FullMethod)
	if err != nil {
		s.auditRefusal(callerOf(stream.Context()), err, auditlog.Entry{Method: info.FullMethod})
		return toStatus(err)
	}
	ctx, st, err := s.standings.enter(ctx)
	if err != nil {
		return toStatus(err)
	}
	defer st.leave()
	if err = st.check(); err == nil {
		err = handler(srv, guardedStream{stream, ctx, st})
	}
	return toStatus(s.ended(ctx, st, info.FullMethod, err))
}
