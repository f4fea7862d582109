package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

const siteUsage = `usage, at a site:
       conclave site request --dir DIR --site NAME [--role node|student|aggregator] [--hosts HOST,...] [--renew [--new-key]]
       conclave site install --dir DIR --site NAME [--role ROLE] [--ca CA.crt] CERTIFICATE.crt
where the authority is:
       conclave site approve --dir CA_DIR [--days N] [--site NAME] [--role ROLE] [--fingerprint HEX] REQUEST.csr
       conclave site revoke  --dir CA_DIR [--role ROLE] [--reason WORD] [--crl-days N] NAME | --serial HEX
       conclave site crl     --dir CA_DIR [--crl-days N]
       conclave site list    --dir CA_DIR
A node's name is its site.`

func site(ctx context.Context, args []string) error {
	return among(ctx, args, siteUsage, map[string]commandFunc{
		"request": requestCertificate, "install": installCertificate,
		"approve": approveRequest, "revoke": revokeCertificate, "crl": writeRevoked, "list": listCertificates,
	})
}

// operand takes the one argument that is no flag, wherever it stands.
func operand(f *flag.FlagSet, args []string) (name string, rest []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") || a == "-" {
			if name == "" {
				name = a
				continue
			}
			rest = append(rest, a) // parse complains
			continue
		}
		rest = append(rest, a)
		known := f.Lookup(strings.TrimLeft(a, "-"))
		if known == nil {
			continue
		}
		if b, ok := known.Value.(interface{ IsBoolFlag() bool }); (!ok || !b.IsBoolFlag()) && i+1 < len(args) {
			i++
			rest = append(rest, args[i])
		}
	}
	return name, rest
}

// roleFlag registers --role.
func roleFlag(f *flag.FlagSet, value, what string) *string {
	return f.String("role", value, what+": node, student or aggregator")
}

func checkRole(f *flag.FlagSet, role string) error {
	switch certs.Role(role) {
	case certs.RoleNode, certs.RoleStudent, certs.RoleAggregator:
		return nil
	}
	return misuse(f, "--role %q: use node, student or aggregator", role)
}

// days is a number of days as a duration; 0 where that is none.
func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

func requestCertificate(_ context.Context, args []string) error {
	f := flags("site request", "site request --dir DIR --site NAME [--role ROLE] [--hosts HOST,...] [--renew [--new-key]]")
	dir := f.String("dir", "", "folder of the site's key and certificate; made if needed")
	name := f.String("site", "", "name of the site, or of the student or aggregator")
	role := roleFlag(f, "node", "whom the certificate is for")
	hosts := f.String("hosts", "", "names and addresses an aggregator is dialled by, with commas")
	renew := f.Bool("renew", false, "ask for a further certificate, for the key that is there")
	newKey := f.Bool("new-key", false, "with --renew: make a new key, which install puts in the old one's place")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || *name == "" {
		return misuse(f, "--dir and --site are needed")
	}
	if err := checkRole(f, *role); err != nil {
		return err
	}
	if *hosts != "" && *role != string(certs.RoleAggregator) {
		return misuse(f, "--hosts belongs to an aggregator, nobody dials a %s; leave it out", *role)
	}
	if *newKey && !*renew {
		return misuse(f, "--new-key belongs to --renew; a first request makes a key anyway")
	}
	choice := certs.FirstKey
	if *renew {
		choice = certs.SameKey
	}
	if *newKey {
		choice = certs.NextKey
	}
	var list []string
	if *hosts != "" {
		list = strings.Split(*hosts, ",")
	}
	q, err := certs.NewRequest(*dir, certs.Role(*role), *name, list, choice)
	if err != nil {
		return err
	}
	files := certs.FilesAtSite(*dir, certs.Role(*role), *name)
	if *format == "json" {
		return printJSON(map[string]string{"request": files.Request, "fingerprint": q.Fingerprint})
	}
	fmt.Printf("%s\nfingerprint of the key: %s\n", files.Request, certs.SpellFingerprint(q.Fingerprint))
	fmt.Fprintln(os.Stderr, "send the .csr file to whoever keeps the authority, and read the fingerprint out; the key stays here")
	return nil
}

func installCertificate(_ context.Context, args []string) error {
	f := flags("site install", "site install --dir DIR --site NAME [--role ROLE] [--ca CA.crt] CERTIFICATE.crt")
	dir := f.String("dir", "", "folder of the site's key")
	name := f.String("site", "", "name of the site, or of the student or aggregator")
	role := roleFlag(f, "node", "whom the certificate is for")
	ca := f.String("ca", "", "the authority's certificate, where the folder has none yet")
	format := formatFlag(f)
	path, args := operand(f, args)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || *name == "" || path == "" {
		return misuse(f, "--dir, --site and the file of a certificate are needed")
	}
	if err := checkRole(f, *role); err != nil {
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	var authority []byte
	if *ca != "" {
		if authority, err = os.ReadFile(*ca); err != nil {
			return fmt.Errorf("read the authority's certificate: %w", err)
		}
	}
	files, err := certs.Install(*dir, certs.Role(*role), *name, raw, authority)
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(certs.Files{CA: files.CA, Cert: files.Cert, Key: files.Key})
	}
	fmt.Printf("%s\n%s\n%s\n", files.CA, files.Cert, files.Key)
	return nil
}
