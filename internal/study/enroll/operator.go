package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/roster"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// Operator admits sites to a study with its authority.
type Operator struct {
	study     *study.Study
	hash      string // of the study's text, in hex
	schema    string // of the schema, in hex
	authority string // the folder
	api       rpc.AdmitServiceClient
	*client
}

// Asking is a site that asks to be admitted.
type Asking struct {
	Site     string
	Received time.Time
	*request.Request
	// Replaced is how often a request with another key replaced one of the site's.
	Replaced uint32
	// Refused says why it cannot be admitted, or is nil.
	Refused error
}

// NewOperator connects the operator of a study with the certificate in files. The caller passes the study's text and
// schema.
func NewOperator(s *study.Study, text []byte, schemaSHA256, authority string, files certs.Files,
	away func(string)) (*Operator, error) {
	c, err := connect(s.Addresses(), "", files, away)
	if err != nil {
		return nil, err
	}
	return &Operator{study: s, hash: study.Hash(text), schema: schemaSHA256, authority: authority, client: c,
		api: rpc.NewAdmitServiceClient(c)}, nil
}

// Look returns the sites that ask and are not in the roster, and the current roster, or nil.
func (o *Operator) Look(ctx context.Context) (asking []Asking, stands *Standing, err error) {
	var r *conclavev1.ListRequestsResponse
	err = o.again(ctx, "list the sites' requests", func() (err error) {
		r, err = o.api.ListRequests(ctx, &conclavev1.ListRequestsRequest{Dataset: o.study.Dataset})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if r.GetRoster() != nil {
		if stands, err = o.own(fromWire(r.GetRoster())); err != nil {
			return nil, nil, err
		}
	}
	for _, m := range r.GetRequests() {
		if stands == nil || stands.Site(m.GetSite()) == nil {
			asking = append(asking, o.read(m))
		}
	}
	return asking, stands, nil
}

// own checks that this authority signed the aggregator's roster for this study.
func (o *Operator) own(signed roster.Signed) (*Standing, error) {
	ca, _, err := authority.Own(o.authority)
	if err != nil {
		return nil, err
	}
	r, err := signed.Check(ca, time.Now())
	if err != nil {
		return nil, err
	}
	if r.Study != o.hash || r.Schema != o.schema {
		return nil, fmt.Errorf("%w: the aggregator's roster is for another study; use the folder of that "+
			"study", roster.ErrRoster)
	}
	return &Standing{r, signed}, nil
}

// read parses a request, and sets what is wrong with it.
func (o *Operator) read(m *conclavev1.SiteRequest) Asking {
	a := Asking{Site: m.GetSite(), Replaced: m.GetReplaced()}
	a.Received, _ = time.Parse(time.RFC3339, m.GetReceived()) // the aggregator may send anything
	a.Request, a.Refused = request.Parse(m.GetRequest())
	switch {
	case a.Refused != nil:
	case a.Identity != certs.Identity{Role: certs.RoleNode, Name: a.Site}:
		a.Refused = fmt.Errorf("it is for %s", a.Identity)
	case !slices.Contains(o.study.Sites, a.Site):
		a.Refused = errors.New("the study does not list the site")
	case m.GetStudySha256() != o.hash:
		a.Refused = errors.New("it is for another study: the site has another kit")
	}
	return a
}

// Wait waits before the next look.
func (o *Operator) Wait(ctx context.Context) { dial.Wait(ctx, lookEvery) }

// Admit signs the certificates of sites whose fingerprints people compared, and publishes them in a roster based on
// the current one.
func (o *Operator) Admit(ctx context.Context, sites []Asking, stands *Standing, validity time.Duration) (
	*Standing, error) {
	ca, fingerprint, err := authority.Own(o.authority)
	if err != nil {
		return nil, err
	}
	next := roster.Roster{Study: o.hash, Schema: o.schema, Authority: fingerprint, Dataset: o.study.Dataset,
		Generation: 1}
	if stands != nil {
		next.Generation, next.Sites = stands.Generation+1, slices.Clone(stands.Sites)
	}
	for _, a := range sites {
		if a.Refused != nil {
			return nil, fmt.Errorf("site %s cannot be admitted: %w", a.Site, a.Refused)
		}
		issued, err := authority.Approve(o.authority, a.Request, validity)
		if err != nil {
			return nil, fmt.Errorf("site %s: %w", a.Site, err)
		}
		next.Sites = append(next.Sites, roster.Site{Name: a.Site, Key: a.Fingerprint, Certificate: string(issued.PEM)})
	}
	signed, err := roster.Sign(o.authority, next)
	if err != nil {
		return nil, err
	}
	read, err := signed.Check(ca, time.Now())
	if err != nil {
		return nil, err
	}
	err = o.again(ctx, "publish the roster", func() error {
		_, err := o.api.PublishRoster(ctx, &conclavev1.PublishRosterRequest{Dataset: o.study.Dataset,
			Roster: &conclavev1.SignedRoster{Roster: signed.Text, Signature: signed.Signature}})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Standing{read, signed}, nil
}
