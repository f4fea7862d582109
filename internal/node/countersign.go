package node

import (
	"encoding/hex"
	"errors"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/certs/attest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// errOtherHead refuses to sign an entry that was not the newest one here when the request came.
var errOtherHead = errors.New("the aggregator asked for a signature of another entry than the last one it sent")

// countersign signs the newest ledger entry, to which this node has followed the chain from the first one. So an
// aggregator cannot show an auditor a different ledger from the one it showed the site. If it cannot sign, the node
// replies without a signature, so that nobody waits for it.
func (n *Node) countersign(t task) *conclavev1.WorkRequest {
	signed := &conclavev1.SignedHead{Head: t.sign}
	signature, err := n.signHead(t)
	if err == nil {
		signed.Signature = signature.Wire()
	} else {
		n.log.Warn("did not countersign the ledger head", zap.Uint64("entry", t.sign.GetSeq()), zap.Error(err))
	}
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Signed{Signed: signed}}
}

func (n *Node) signHead(t task) (attest.Signature, error) {
	if t.refusal != nil {
		return attest.Signature{}, t.refusal
	}
	head := attest.Head(n.cfg.Dataset, t.sign.GetSeq(), hex.EncodeToString(t.sign.GetHash()))
	return attest.SignBy(n.cfg.TLS, head)
}
