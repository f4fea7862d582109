package teacher

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// acceptCommand accepts a dataset's ledger that was restored from an older one.
func acceptCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "accept-ledger --config FILE --seq N --hash HASH [--as CERT --key KEY]",
		Short: "accept an older ledger that was restored on purpose",
		Long: `Accepts a dataset's ledger that the operator restored from an older backup on purpose. A node refuses
such a ledger ("the ledger went back"), because spending after the backup would be forgotten and repeated.

Stop the node. Ask the aggregator's operator for the reason, and compare the number and hash of the ledger's last entry
with theirs. Run this command, and start the node again. The entry must not be newer than the newest one that the node
knew. If the ledger has grown since the restore, give the last entry of the backup.

With a policy, the site's own ledger keeps all its charges, and charges each repeated question once more. If the
policy names approvers, one of them signs (--as, --key). Without a policy there is no such ledger: releases since the
backup are not counted, and are spent on top of the dataset's budget. The command writes a line to the audit log.`,
	}
	seq := c.Flags().Uint64("seq", 0, "number of the last entry of the restored ledger, as the refusal shows it")
	hash := c.Flags().String("hash", "", "hash of that entry, 64 hex digits")
	by := newSigner(c)
	c.RunE = func(*cobra.Command, []string) error {
		raw, err := hex.DecodeString(*hash)
		if *seq == 0 || err != nil || len(raw) != sha256.Size {
			return cli.Misuse("--seq, --hash: give number and hash of the last entry of the restored ledger, as the " +
				"refusal shows them; the hash has 64 hex digits")
		}
		sign, err := by.signs()
		if err != nil {
			return err
		}
		settings, err := node.LoadConfig(*config)
		if err != nil {
			return err
		}
		var enforcer *sitepolicy.Enforcer
		if settings.Policy != "" {
			if enforcer, _, err = review.Open(*config, false); err != nil {
				return err
			}
		}
		head := sitepolicy.LedgerHead{Seq: *seq, Hash: hex.EncodeToString(raw)}
		known, err := node.AcceptLedger(settings, enforcer, head,
			sitepolicy.Decision{By: review.Whoami(), Sign: sign})
		if err != nil {
			return err
		}
		fmt.Printf("accepted entry %d (%s) in place of entry %d (%s); start the node again\n", head.Seq, head.Hash,
			known.Seq, known.Hash)
		if enforcer == nil {
			fmt.Fprintln(os.Stderr, "this node has no policy and keeps no ledger of its own: releases "+
				"since the backup are not counted, and are spent on top of the dataset's budget")
		}
		return nil
	}
	return c
}
