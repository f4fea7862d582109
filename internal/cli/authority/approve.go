package authority

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/cli"
)

// approveFlags say what a request must be, and what its certificate is.
type approveFlags struct {
	dir, name, fingerprint, out string
	days                        int
	yes                         bool
	role, format                *string
}

func approveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "approve --dir CA_DIR [--days N] [--site NAME] [--role ROLE] [--fingerprint HEX] REQUEST.csr",
		Short: "at the authority: sign a request",
		Args:  cli.AtMostOneArgument,
	}
	var o approveFlags
	f := c.Flags()
	f.StringVar(&o.dir, "dir", "", "`folder` of the authority")
	f.IntVar(&o.days, "days", 365, "days the certificate is valid")
	f.StringVar(&o.name, "site", "", "refuse a request with another name")
	o.role = roleFlag(c, certs.RoleNode, "refuse a request for another role")
	f.StringVar(&o.fingerprint, "fingerprint", "",
		"the key's fingerprint as the site read it out (default: asks for confirmation)")
	f.StringVar(&o.out, "out", "",
		"`file` for the certificate (default: the request's path, with .crt in place of .csr)")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	o.format = cli.Format(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.dir == "" || len(args) == 0 {
			return cli.Misuse("--dir and the file of a request are required")
		}
		if err := checkDays("days", o.days, 1); err != nil {
			return err
		}
		return approve(c.Context(), o, args[0])
	}
	return c
}

func approve(ctx context.Context, o approveFlags, path string) error {
	if o.out == "" {
		o.out = strings.TrimSuffix(path, ".csr") + ".crt"
	}
	q, err := request.Read(path)
	if err != nil {
		return err
	}
	switch {
	case o.name != "" && q.Identity.Name != o.name:
		return fmt.Errorf("the request is for %s, not for %q; do not approve it", q.Identity, o.name)
	case string(q.Identity.Role) != *o.role:
		return fmt.Errorf("the request is for %s, not for role %s; if that is intended, add --role %s",
			q.Identity, *o.role, q.Identity.Role)
	}
	if o.fingerprint != "" {
		if err := q.CheckFingerprint(o.fingerprint); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(o.out); err == nil {
		return fmt.Errorf("%s: %w; give another file with --out", o.out, certs.ErrExists)
	}
	fmt.Fprintf(os.Stderr, "request for  %s\n", q.Identity)
	if len(q.Hosts) > 0 {
		fmt.Fprintf(os.Stderr, "hosts        %s\n", strings.Join(q.Hosts, ", "))
	}
	fmt.Fprintf(os.Stderr, "valid for    %d days\nfingerprint  %s\n",
		o.days, certs.SpellFingerprint(q.Fingerprint))
	if o.fingerprint == "" && !o.yes {
		if !cli.Confirm(ctx, "does the site read out the same fingerprint?") {
			return errors.New("not approved; answer yes, or give the fingerprint with --fingerprint")
		}
	}
	issued, err := authority.Approve(o.dir, q, duration(o.days))
	if err != nil {
		return err
	}
	if err := issued.SaveAs(o.out); err != nil {
		return err
	}
	if *o.format == "json" {
		return cli.PrintJSON(struct {
			Cert string `json:"cert"`
			*authority.Issued
		}{o.out, issued})
	}
	fmt.Println(o.out)
	return nil
}
