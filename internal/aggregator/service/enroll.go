package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/study/roster"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const (
	// maxSiteRequest bounds a certificate request, which has some 500 bytes.
	maxSiteRequest = 4 << 10
	// rosterBurst bounds how often a site or an operator may fetch the roster at once; after that, one per
	// rosterEvery. A waiting site fetches once a second.
	rosterBurst = 60
	rosterEvery = 500 * time.Millisecond
)

// enrolling serves sites with a start kit.
type enrolling struct {
	rpc.UnimplementedEnrollServiceServer
	Options
	looks *peer.Rates
}

// admitting serves the operator that admits them.
type admitting struct {
	rpc.UnimplementedAdmitServiceServer
	Options
	looks *peer.Rates
}

// SendRequest stores a site's request.
func (s *enrolling) SendRequest(ctx context.Context, q *conclavev1.SendRequestRequest) (
	*conclavev1.SendRequestResponse, error) {
	replaced, err := s.sendRequest(ctx, q)
	if err != nil {
		return nil, s.refused(ctx, err, auditlog.Entry{Method: "SendRequest", Dataset: q.GetDataset()})
	}
	return &conclavev1.SendRequestResponse{Replaced: replaced}, nil
}

func (s *enrolling) sendRequest(ctx context.Context, q *conclavev1.SendRequestRequest) (replaced string, err error) {
	d, err := s.Rounds.Dataset(q.GetDataset())
	if err != nil {
		return "", err
	}
	if len(q.GetRequest()) > maxSiteRequest {
		return "", fault.Invalidf("the request has %d bytes; the maximum is %d", len(q.GetRequest()), maxSiteRequest)
	}
	asks, err := request.Parse(q.GetRequest())
	if err != nil {
		return "", fault.Invalidf("%w", err)
	}
	session := peer.SessionOf(ctx)
	site := session.Identity.Name
	if asks.Identity != (certs.Identity{Role: certs.RoleNode, Name: site}) {
		return "", fault.Deniedf("the kit is for site %q, and the request is for %s; use the site's own kit", site,
			asks.Identity)
	}
	if of := d.Study; of != nil && q.GetStudySha256() != of.SHA256 {
		return "", fault.Refusedf("site %q asks for another study than that of dataset %q, which is %s; use the kit "+
			"of that study", site, d.Record.Name, of)
	}
	if sum, err := hex.DecodeString(q.GetStudySha256()); err != nil || len(sum) != sha256.Size {
		return "", fault.Invalidf("study_sha256 is not 64 hex digits")
	}
	if err := s.Audit.Check(); err != nil {
		return "", err
	}
	replaced, err = s.Store.StoreRequest(ctx, s.Lead, coordinator.SiteRequest{
		Dataset: d.Record.Name, Site: site, Study: q.GetStudySha256(), Key: asks.Fingerprint, PEM: q.GetRequest(),
	})
	if err != nil {
		return "", err
	}
	s.Log.Info("a site asks for admission", zap.String("dataset", d.Record.Name), zap.String("site", site),
		zap.String("key", asks.Fingerprint), zap.String("replaced", replaced))
	reason := "key " + asks.Fingerprint
	if replaced != "" {
		reason += " in place of " + replaced
	}
	return replaced, s.Audit.Write(session.Caller, auditlog.Entry{
		Event: auditlog.SiteAsked, Dataset: d.Record.Name, Node: site, Reason: reason,
	})
}

// FetchRoster returns the current roster.
func (s *enrolling) FetchRoster(ctx context.Context, q *conclavev1.FetchRosterRequest) (
	*conclavev1.FetchRosterResponse, error) {
	r, err := s.fetchRoster(ctx, q.GetDataset())
	return r, s.refused(ctx, err, auditlog.Entry{Method: "FetchRoster", Dataset: q.GetDataset()})
}

func (s *enrolling) fetchRoster(ctx context.Context, dataset string) (*conclavev1.FetchRosterResponse, error) {
	site := peer.SessionOf(ctx).Identity
	if err := s.looks.Check(site, "asked for the roster too often"); err != nil {
		return nil, err
	}
	if _, err := s.Rounds.Dataset(dataset); err != nil {
		return nil, err
	}
	stands, asked, err := s.Store.Enrolled(ctx, dataset, site.Name)
	if err != nil {
		return nil, err
	}
	r := &conclavev1.FetchRosterResponse{Roster: signed(stands)}
	if asked != nil {
		r.RequestKey = asked.Key
	}
	return r, nil
}

func signed(r *coordinator.Roster) *conclavev1.SignedRoster {
	if r == nil {
		return nil
	}
	return &conclavev1.SignedRoster{Roster: r.Text, Signature: r.Signature}
}

// ListRequests returns the requests of a dataset's sites.
func (s *admitting) ListRequests(ctx context.Context, q *conclavev1.ListRequestsRequest) (
	*conclavev1.ListRequestsResponse, error) {
	r, err := s.listRequests(ctx, q.GetDataset())
	return r, s.refused(ctx, err, auditlog.Entry{Method: "ListRequests", Dataset: q.GetDataset()})
}

func (s *admitting) listRequests(ctx context.Context, dataset string) (*conclavev1.ListRequestsResponse, error) {
	if err := s.looks.Check(peer.SessionOf(ctx).Identity, "asked for the requests too often"); err != nil {
		return nil, err
	}
	if _, err := s.Rounds.Dataset(dataset); err != nil {
		return nil, err
	}
	all, err := s.Store.Requests(ctx, dataset)
	if err != nil {
		return nil, err
	}
	stands, err := s.Store.Roster(ctx, dataset)
	if err != nil {
		return nil, err
	}
	r := &conclavev1.ListRequestsResponse{Roster: signed(stands)}
	for _, a := range all {
		r.Requests = append(r.Requests, &conclavev1.SiteRequest{
			Site: a.Site, StudySha256: a.Study, Request: a.PEM, Received: a.Received, Replaced: a.Replaced,
		})
	}
	return r, nil
}

// PublishRoster replaces the current roster.
func (s *admitting) PublishRoster(ctx context.Context, q *conclavev1.PublishRosterRequest) (
	*conclavev1.PublishRosterResponse, error) {
	err := s.publishRoster(ctx, q)
	if err != nil {
		return nil, s.refused(ctx, err, auditlog.Entry{Method: "PublishRoster", Dataset: q.GetDataset()})
	}
	return &conclavev1.PublishRosterResponse{}, nil
}

func (s *admitting) publishRoster(ctx context.Context, q *conclavev1.PublishRosterRequest) error {
	d, err := s.Rounds.Dataset(q.GetDataset())
	if err != nil {
		return err
	}
	r := roster.Signed{Text: q.GetRoster().GetRoster(), Signature: q.GetRoster().GetSignature()}
	read, err := s.genuine(r)
	if err != nil {
		return fault.Invalidf("%w", err)
	}
	if of := d.Study; of != nil && read.Study != of.SHA256 {
		return fault.Refusedf("the roster is for another study than that of dataset %q, which is %s", d.Record.Name, of)
	}
	if read.Dataset != d.Record.Name || read.Schema != d.Record.SchemaSHA256 {
		return fault.Refusedf("the roster is for dataset %q with schema %s; here %q has %s", read.Dataset,
			fault.Word(read.Schema), d.Record.Name, d.Record.SchemaSHA256)
	}
	if err := s.Audit.Check(); err != nil {
		return err
	}
	if err := s.Store.PublishRoster(ctx, s.Lead, coordinator.Roster{
		Dataset: read.Dataset, Generation: read.Generation, Keys: read.Keys(), Text: r.Text, Signature: r.Signature,
	}); err != nil {
		return err
	}
	s.Log.Info("roster published", zap.String("dataset", read.Dataset),
		zap.Uint64("generation", read.Generation), zap.Int("sites", len(read.Sites)),
		zap.String("fingerprint", r.Fingerprint()))
	return s.Audit.Write(peer.SessionOf(ctx).Caller, auditlog.Entry{
		Event: auditlog.RosterPublished, Dataset: read.Dataset,
		Reason: fmt.Sprintf("generation %d, %d sites, fingerprint %s", read.Generation, len(read.Sites),
			r.Fingerprint()),
	})
}

// genuine parses a roster that one of the server's authorities signed. Sites check it again; this check stops an
// operator certificate without the authority's key from publishing.
func (s *admitting) genuine(r roster.Signed) (*roster.Roster, error) {
	var read *roster.Roster
	authorities, err := s.Authorities()
	for _, ca := range authorities {
		if read, err = r.Check(ca, time.Now()); err == nil {
			return read, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("%w: there is no authority here", roster.ErrRoster)
	}
	return nil, err
}
