package authority

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/cli"
)

// siteCommand is for sites that keep their own keys, and for their authority.
func siteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "site COMMAND",
		Short: "request, approve, renew, revoke and list certificates of sites",
		Long: `Requests, approves, renews, revokes and lists certificates of sites.
A site requests and installs; the others are for where the authority is. A node's name is its site.`,
	}
	c.AddCommand(requestCommand(), installCommand(), approveCommand(), revokeCommand(), crlCommand(), listCommand())
	return c
}

// requestFlags say what a site asks for.
type requestFlags struct {
	dir, name     string
	role          *string
	hosts         []string
	renew, newKey bool
	format        *string
}

func requestCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "request --dir DIR --site NAME [--role ROLE] [--hosts HOST,...] [--renew [--new-key]]",
		Short: "at a site: make a key, and a request to send to the authority",
	}
	var o requestFlags
	f := c.Flags()
	f.StringVar(&o.dir, "dir", "", "`folder` of the site's key and certificate; made if needed")
	f.StringVar(&o.name, "site", "", "name of the site, or of the student or aggregator")
	o.role = roleFlag(c, certs.RoleNode, "whom the certificate is for")
	hostsFlag(c, &o.hosts)
	f.BoolVar(&o.renew, "renew", false, "ask for a further certificate, for the key that is there")
	f.BoolVar(&o.newKey, "new-key", false, "with --renew: make a new key, which install puts in the old one's place")
	o.format = cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if o.dir == "" || o.name == "" {
			return cli.Misuse("--dir and --site are needed")
		}
		if err := checkHosts(o.hosts, certs.Role(*o.role)); err != nil {
			return err
		}
		if o.newKey && !o.renew {
			return cli.Misuse("--new-key belongs to --renew; a first request makes a key anyway")
		}
		return requestCertificate(o)
	}
	return c
}

func requestCertificate(o requestFlags) error {
	choice := request.FirstKey
	if o.renew {
		choice = request.SameKey
	}
	if o.newKey {
		choice = request.NextKey
	}
	role := certs.Role(*o.role)
	q, err := request.New(o.dir, role, o.name, o.hosts, choice)
	if err != nil {
		return err
	}
	files := certs.FilesAtSite(o.dir, role, o.name)
	if *o.format == "json" {
		return cli.PrintJSON(map[string]string{"request": files.Request, "fingerprint": q.Fingerprint})
	}
	fmt.Printf("%s\nfingerprint of the key: %s\n", files.Request, certs.SpellFingerprint(q.Fingerprint))
	fmt.Fprintln(os.Stderr,
		"send the .csr file to whoever keeps the authority, and read the fingerprint out; the key stays here")
	return nil
}

// installFlags say where a certificate belongs.
type installFlags struct {
	dir, name, ca string
	role, format  *string
}

func installCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "install --dir DIR --site NAME [--role ROLE] [--ca CA.crt] CERTIFICATE.crt",
		Short: "at a site: put the certificate beside its key",
		Args:  cli.AtMostOneArgument,
	}
	var o installFlags
	f := c.Flags()
	f.StringVar(&o.dir, "dir", "", "`folder` of the site's key")
	f.StringVar(&o.name, "site", "", "name of the site, or of the student or aggregator")
	o.role = roleFlag(c, certs.RoleNode, "whom the certificate is for")
	f.StringVar(&o.ca, "ca", "", "the authority's certificate, where the folder has none yet")
	o.format = cli.Format(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if o.dir == "" || o.name == "" || len(args) == 0 {
			return cli.Misuse("--dir, --site and the file of a certificate are needed")
		}
		return install(o, args[0])
	}
	return c
}

func install(o installFlags, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	var authority []byte
	if o.ca != "" {
		if authority, err = os.ReadFile(o.ca); err != nil {
			return fmt.Errorf("read the authority's certificate: %w", err)
		}
	}
	files, err := request.Install(o.dir, certs.Role(*o.role), o.name, raw, authority)
	if err != nil {
		return err
	}
	if *o.format == "json" {
		return cli.PrintJSON(files.Files)
	}
	fmt.Printf("%s\n%s\n%s\n", files.CA, files.Cert, files.Key)
	return nil
}
