package transport

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// allowed names the role that may call a service. Any certificate may call Health.
var allowed = map[string]certs.Role{
	rpc.TeacherService_ServiceDesc.ServiceName:  certs.RoleNode,
	rpc.StudentService_ServiceDesc.ServiceName:  certs.RoleStudent,
	rpc.RunService_ServiceDesc.ServiceName:      certs.RoleStudent,
	rpc.EnrollService_ServiceDesc.ServiceName:   certs.RoleJoiner,
	rpc.AdmitService_ServiceDesc.ServiceName:    certs.RoleOperator,
	rpc.OperatorService_ServiceDesc.ServiceName: certs.RoleOperator,
}

// operators are the methods that operators may also call.
var operators = map[string]bool{
	rpc.StudentService_ReadLedger_FullMethodName: true,
	rpc.RunService_ListRuns_FullMethodName:       true,
	rpc.RunService_ShowRun_FullMethodName:        true,
	rpc.RunService_WatchRun_FullMethodName:       true,
	rpc.RunService_CancelRun_FullMethodName:      true,
	rpc.RunService_RemoveRun_FullMethodName:      true,
}

// authenticator admits calls by the certificates of their connections.
type authenticator struct {
	sessions *peer.Sessions
	changes  changes
	audit    peer.AuditLog
}

// begin starts the session of a call if its peer may call the method now.
func (a *authenticator) begin(ctx context.Context, method string) (context.Context, *peer.Session, error) {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return nil, nil, fault.Errorf(codes.Unauthenticated, "the connection has no peer")
	}
	info, ok := p.AuthInfo.(connInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil, nil, errNoCertificate
	}
	by := peer.Caller{}
	by.Name, by.Certificate = certs.PeerName(info.State)
	id, err := certs.PeerIdentity(info.State)
	if err != nil {
		err = fault.Errorf(codes.Unauthenticated, "peer certificate: %w", err)
	} else if err = authorize(id, method); err == nil {
		err = a.changes.check(id, method)
	}
	if err != nil {
		a.audit.Refusal(by, err, auditlog.Entry{Method: method})
		return nil, nil, err
	}
	ctx, session := a.sessions.Begin(ctx, p.Addr.String(), info.State.PeerCertificates[0], id, by)
	return ctx, session, nil
}

// authorize checks that a role may call a method.
func authorize(id certs.Identity, method string) error {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	role, known := allowed[service]
	switch {
	case id.Role == certs.RoleOperator && operators[method]:
	case known && id.Role != role:
		return fault.Deniedf("%s %q may not call %s; it is for certificates with role %s",
			id.Role, id.Name, strings.TrimPrefix(method, "/"), role)
	case !known && service != healthpb.Health_ServiceDesc.ServiceName:
		return fault.Errorf(codes.Unimplemented, "service %s is not available here", service)
	}
	return nil
}

func (a *authenticator) unary(
	ctx context.Context, q any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	ctx, session, err := a.begin(ctx, info.FullMethod)
	if err != nil {
		return nil, fault.Status(err)
	}
	defer session.Leave()
	var response any
	if err = session.Check(); err == nil {
		response, err = handler(ctx, q)
	}
	if session.Check() != nil {
		response = nil
	}
	return response, fault.Status(a.ended(session, info.FullMethod, err))
}

func (a *authenticator) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	ctx, session, err := a.begin(stream.Context(), info.FullMethod)
	if err != nil {
		return fault.Status(err)
	}
	defer session.Leave()
	if err = session.Check(); err == nil {
		err = handler(srv, guardedStream{stream, ctx, session})
	}
	return fault.Status(a.ended(session, info.FullMethod, err))
}

// ended is the error of a call. The end of its certificate takes precedence, and is in the audit log.
func (a *authenticator) ended(session *peer.Session, method string, err error) error {
	if reason := session.Reason(); reason != nil {
		a.audit.Refusal(session.Caller, reason, auditlog.Entry{Method: method})
		return reason
	}
	return err
}

// guardedStream is a stream that checks its session for every message.
type guardedStream struct {
	grpc.ServerStream
	ctx     context.Context
	session *peer.Session
}

// Context carries the session.
func (s guardedStream) Context() context.Context { return s.ctx }

// RecvMsg takes no message after the certificate became invalid.
func (s guardedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.session.Check()
}

// SendMsg sends nothing after the certificate became invalid.
func (s guardedStream) SendMsg(m any) error {
	if err := s.session.Check(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}
